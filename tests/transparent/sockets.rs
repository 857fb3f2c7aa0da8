//! std's sockets and pipes, and libc's functions on them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{
    TempDir, alone, amount, child, is_child, join_all, run_ok, set_soft_limit, threads, until,
};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

/// How many goroutines wait.
fn waiting() -> usize {
    gort::runtime::stats().goroutines.waiting
}

/// How many connections are idle, how many are active, and how often these send.
fn connections() -> (usize, usize, usize) {
    (amount(300, 10_000), amount(50, 1_000), amount(20, 100))
}

/// The other process, because each has a limit of descriptors. Ends when the server closes the first
/// connection.
fn clients(address: &str) {
    let (idle, active, rounds) = connections();
    let before = threads().len();
    gort::run(|| {
        let mut control = TcpStream::connect(address).unwrap();
        let quiet: Vec<_> = (1..idle).map(|_| TcpStream::connect(address).unwrap()).collect();
        let clients = (0..active).map(|n| {
            let address = address.to_string();
            gort::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                for round in 0..rounds {
                    let text = format!("{n} {round}");
                    stream.write_all(text.as_bytes()).unwrap();
                    let mut back = vec![0; text.len()];
                    stream.read_exact(&mut back).unwrap();
                    assert_eq!(back, text.as_bytes());
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        super::until_few_threads(before);
        join_all(clients);
        control.write_all(b"done").unwrap();
        assert_eq!(control.read(&mut [0; 4]).unwrap(), 4);
        assert_eq!(control.read(&mut [0; 4]).unwrap(), 0);
        drop(quiet);
    });
}

#[test]
fn idle_and_active_connections_hold_no_threads() {
    const NAME: &str = "sockets::idle_and_active_connections_hold_no_threads";
    const ADDRESS: &str = "GORT_TEST_ADDRESS";
    if !is_child("clients") && !alone(NAME) {
        return;
    }
    let _watchdog = super::enable();
    if is_child("clients") {
        return clients(&std::env::var(ADDRESS).unwrap());
    }
    let (idle, active, _) = connections();
    set_soft_limit(libc::RLIMIT_NOFILE, (idle + active + 200) as u64);
    let before = threads().len();
    gort::run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut clients = child(NAME, "clients");
        clients.env(ADDRESS, listener.local_addr().unwrap().to_string());
        let clients = gort::spawn(move || run_ok(clients));
        let (done, all_done) = std::sync::mpsc::channel();
        let echoes = (0..idle + active).map(|_| {
            let (mut peer, _) = listener.accept().unwrap();
            let done = done.clone();
            gort::spawn(move || {
                let mut buffer = [0; 64];
                loop {
                    match peer.read(&mut buffer).unwrap() {
                        0 => break,
                        n if &buffer[..n] == b"done" => {
                            // The others are idle now.
                            done.send(()).unwrap();
                            peer.write_all(b"done").unwrap();
                            break;
                        }
                        n => peer.write_all(&buffer[..n]).unwrap(),
                    }
                }
            })
        });
        let echoes: Vec<_> = echoes.collect();
        super::until_few_threads(before);
        all_done.recv().unwrap();
        join_all(echoes);
        clients.join().unwrap();
    });
}

#[test]
fn much_data_passes_whole() {
    let _watchdog = super::enable();
    let size = amount(4 << 20, 200 << 20);
    gort::run(move || {
        let (mut sender, mut receiver) = pair();
        let sending = gort::spawn(move || {
            let data: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            sender.write_all(&data).unwrap();
        });
        let mut data = Vec::new();
        receiver.read_to_end(&mut data).unwrap();
        sending.join().unwrap();
        assert_eq!(data.len(), size);
        assert!(data.iter().enumerate().all(|(n, &byte)| byte == (n % 251) as u8));
    });
}

#[test]
fn vectored_writes_pass_whole() {
    let _watchdog = super::enable();
    gort::run(|| {
        let (one, two) = pair();
        let (reader, writer) = io::pipe().unwrap();
        let unix = UnixStream::pair().unwrap();
        fn check(mut to: impl Write + Send + 'static, mut from: impl Read) {
            let sending = gort::spawn(move || {
                let parts: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n; 20_000 + n as usize]).collect();
                let slices: Vec<_> = parts.iter().map(|part| io::IoSlice::new(part)).collect();
                // A call that blocks writes everything.
                assert_eq!(to.write_vectored(&slices).unwrap(), parts.iter().map(Vec::len).sum());
            });
            let mut all = Vec::new();
            from.read_to_end(&mut all).unwrap();
            sending.join().unwrap();
            let expected: Vec<u8> = (0..40u8).flat_map(|n| vec![n; 20_000 + n as usize]).collect();
            assert!(all == expected, "{} bytes", all.len());
        }
        check(one, two);
        check(writer, reader);
        check(unix.0, unix.1);
    });
}

#[test]
fn timeouts_of_sockets_are_honoured() {
    let _watchdog = super::enable();
    gort::run(|| {
        let (mut one, _two) = pair();
        let time = Duration::from_millis(30);
        one.set_read_timeout(Some(time)).unwrap();
        one.set_write_timeout(Some(time)).unwrap();
        let begin = Instant::now();
        assert_eq!(one.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(begin.elapsed() >= time);
        let begin = Instant::now();
        let error = loop {
            if let Err(error) = one.write_all(&[0; 1 << 20]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(begin.elapsed() >= time);
    });
}

#[test]
fn nonblocking_descriptors_stay_so_and_others_are_left_alone() {
    if !alone("sockets::nonblocking_descriptors_stay_so_and_others_are_left_alone") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let flags = |fd: i32| unsafe { libc::fcntl(fd, libc::F_GETFL) } & libc::O_NONBLOCK;
        let (mut one, two) = pair();
        two.set_nonblocking(true).unwrap();
        assert_eq!((&two).read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let fd = one.as_raw_fd();
        let waits = gort::spawn(move || {
            let mut buffer = [0; 4];
            one.read_exact(&mut buffer).unwrap();
            (one, buffer)
        });
        until("it waits", || waiting() >= 1);
        assert_eq!(flags(fd), 0);
        (&two).write_all(b"data").unwrap();
        let (one, buffer) = waits.join().unwrap();
        assert_eq!(&buffer, b"data");
        assert_eq!(flags(one.as_raw_fd()), 0);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(flags(stream.as_raw_fd()), 0);
    });
}

#[test]
fn refused_and_timed_out_connections_fail_as_ever() {
    let _watchdog = super::enable();
    gort::run(|| {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(TcpStream::connect(free).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let error = TcpStream::connect_timeout(&free, Duration::from_secs(10)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn datagrams_and_unix_sockets_wait() {
    if !alone("sockets::datagrams_and_unix_sockets_wait") {
        return;
    }
    let _watchdog = super::enable();
    let dir = TempDir::new();
    let path = dir.path().join("socket");
    gort::run(move || {
        let (one, two) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let address = two.local_addr().unwrap();
        let receiving = gort::spawn(move || {
            let mut buffer = [0; 10];
            let (n, from) = two.recv_from(&mut buffer).unwrap();
            (buffer[..n].to_vec(), from)
        });
        until("it waits", || waiting() >= 1);
        one.send_to(b"ping", address).unwrap();
        assert_eq!(receiving.join().unwrap(), (b"ping".to_vec(), one.local_addr().unwrap()));

        let listener = UnixListener::bind(&path).unwrap();
        let accepting = gort::spawn(move || {
            let mut text = String::new();
            listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
            text
        });
        until("it waits", || waiting() >= 1);
        UnixStream::connect(&path).unwrap().write_all(b"over a path").unwrap();
        assert_eq!(accepting.join().unwrap(), "over a path");

        let (one, two) = UnixDatagram::pair().unwrap();
        let receiving = gort::spawn(move || {
            let mut buffer = [0; 10];
            let n = two.recv(&mut buffer).unwrap();
            buffer[..n].to_vec()
        });
        until("it waits", || waiting() >= 1);
        one.send(b"pong").unwrap();
        assert_eq!(receiving.join().unwrap(), b"pong");
    });
}

#[test]
fn many_readers_of_one_socket_get_each_message_once() {
    let _watchdog = super::enable();
    let messages = amount(500, 20_000);
    gort::run(move || {
        let (one, two) = UnixDatagram::pair().unwrap();
        let two = Arc::new(two);
        let sum = Arc::new(AtomicUsize::new(0));
        let read = {
            let (two, sum) = (Arc::clone(&two), Arc::clone(&sum));
            move || loop {
                let mut buffer = [0; 8];
                two.recv(&mut buffer).unwrap();
                match usize::from_ne_bytes(buffer) {
                    usize::MAX => break,
                    n => sum.fetch_add(n, Ordering::Relaxed),
                };
            }
        };
        let goroutines: Vec<_> = (0..4).map(|_| gort::spawn(read.clone())).collect();
        let foreign: Vec<_> = (0..4).map(|_| thread::spawn(read.clone())).collect();
        (0..messages).for_each(|n| _ = one.send(&n.to_ne_bytes()).unwrap());
        (0..8).for_each(|_| _ = one.send(&usize::MAX.to_ne_bytes()).unwrap());
        join_all(goroutines);
        foreign.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(sum.load(Ordering::Relaxed), messages * (messages - 1) / 2);
    });
}

#[test]
fn poll_and_select_wait_for_several() {
    if !alone("sockets::poll_and_select_wait_for_several") {
        return;
    }
    let _watchdog = super::enable();
    let before = threads().len();
    gort::run(move || {
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        let fds: Vec<i32> = pairs.iter().map(|(one, _)| one.as_raw_fd()).collect();
        let own = fds.clone();
        let polling = (0..amount(20, 200)).map(|_| {
            let fds = own.clone();
            gort::spawn(move || {
                let mut entries: Vec<_> =
                    fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
                let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as u64, -1) };
                (ready, entries.iter().position(|entry| entry.revents & libc::POLLIN != 0))
            })
        });
        let polling: Vec<_> = polling.collect();
        let selecting = gort::spawn(move || unsafe {
            let mut set: libc::fd_set = std::mem::zeroed();
            own.iter().for_each(|&fd| libc::FD_SET(fd, &raw mut set));
            let none = std::ptr::null_mut();
            let most = own.iter().max().unwrap() + 1;
            let ready = libc::select(most, &raw mut set, none, none, std::ptr::null_mut());
            (ready, own.iter().position(|&fd| libc::FD_ISSET(fd, &raw const set)))
        });
        until("all wait", || waiting() > polling.len());
        super::until_few_threads(before);
        (&pairs[1].1).write_all(b"x").unwrap();
        for poll in polling {
            assert_eq!(poll.join().unwrap(), (1, Some(1)));
        }
        assert_eq!(selecting.join().unwrap(), (1, Some(1)));
        // Timeouts, without and with descriptors.
        for count in [0, 1] {
            let mut entry = libc::pollfd { fd: fds[0], events: libc::POLLIN, revents: 0 };
            let begin = Instant::now();
            assert_eq!(unsafe { libc::poll(&raw mut entry, count, 20) }, 0);
            assert!(begin.elapsed() >= Duration::from_millis(20));
        }
    });
}

#[test]
fn an_event_loop_of_another_library_waits() {
    if !alone("sockets::an_event_loop_of_another_library_waits") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let instance = unsafe { libc::epoll_create1(0) };
        let (one, two) = UnixStream::pair().unwrap();
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 42 };
        assert_eq!(
            unsafe { libc::epoll_ctl(instance, libc::EPOLL_CTL_ADD, one.as_raw_fd(), &raw mut event) },
            0
        );
        let mut none = libc::epoll_event { events: 0, u64: 0 };
        assert_eq!(unsafe { libc::epoll_wait(instance, &raw mut none, 1, 10) }, 0);
        let looping = gort::spawn(move || {
            let mut found = libc::epoll_event { events: 0, u64: 0 };
            let count = unsafe { libc::epoll_wait(instance, &raw mut found, 1, -1) };
            (count, { found.u64 })
        });
        until("it waits", || waiting() >= 1);
        (&two).write_all(b"x").unwrap();
        assert_eq!(looping.join().unwrap(), (1, 42));
        unsafe { libc::close(instance) };
    });
}

#[test]
fn a_socket_may_become_one_of_gorts() {
    if !alone("sockets::a_socket_may_become_one_of_gorts") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let (mut one, two) = pair();
        let waits = gort::spawn(move || {
            one.read_exact(&mut [0; 1]).unwrap();
            one
        });
        until("it waits", || waiting() >= 1);
        (&two).write_all(b"xy").unwrap();
        let one = waits.join().unwrap();
        // epoll knows the number already.
        let mut one = gort::net::TcpStream::from(one);
        one.read_exact(&mut [0; 1]).unwrap();
        let waits = gort::spawn(move || one.read(&mut [0; 1]).map(|n| (n, one)));
        until("it waits", || waiting() >= 1);
        (&two).write_all(b"z").unwrap();
        let (n, one) = waits.join().unwrap().unwrap();
        assert_eq!(n, 1);
        let mut one = TcpStream::from(one);
        let waits = gort::spawn(move || one.read(&mut [0; 1]));
        until("it waits", || waiting() >= 1);
        drop(two);
        assert_eq!(waits.join().unwrap().unwrap(), 0);
    });
}

#[test]
fn a_terminal_and_an_eventfd_wait() {
    if !alone("sockets::a_terminal_and_an_eventfd_wait") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| unsafe {
        let eventfd = libc::eventfd(0, 0);
        let waits = gort::spawn(move || {
            let mut value = 0u64;
            assert_eq!(libc::read(eventfd, (&raw mut value).cast(), 8), 8);
            value
        });
        until("it waits", || waiting() >= 1);
        assert_eq!(libc::write(eventfd, std::ptr::from_ref(&5u64).cast(), 8), 8);
        assert_eq!(waits.join().unwrap(), 5);
        libc::close(eventfd);

        let (mut master, mut slave) = (0, 0);
        let none = std::ptr::null_mut();
        assert_eq!(libc::openpty(&raw mut master, &raw mut slave, none, none.cast(), none.cast()), 0);
        let waits = gort::spawn(move || {
            let mut line = [0u8; 10];
            let n = libc::read(slave, line.as_mut_ptr().cast(), 10);
            line[..n as usize].to_vec()
        });
        until("it waits", || waiting() >= 1);
        assert_eq!(libc::write(master, c"line\n".as_ptr().cast(), 5), 5);
        assert_eq!(waits.join().unwrap(), b"line\n");
        libc::close(master);
        libc::close(slave);
    });
}

#[test]
fn a_full_pipe_and_an_empty_one_wait() {
    if !alone("sockets::a_full_pipe_and_an_empty_one_wait") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&done);
        let writing = gort::spawn(move || {
            writer.write_all(&vec![7; 1 << 20]).unwrap();
            set.store(true, Ordering::Relaxed);
        });
        until("it waits", || waiting() >= 1);
        assert!(!done.load(Ordering::Relaxed));
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 1 << 20);
        writing.join().unwrap();
    });
}

/// What a wait knows of a stream socket from earlier waits must not outlive what it is about.
#[test]
fn changed_settings_of_a_socket_are_seen_by_the_next_wait() {
    let _watchdog = super::enable();
    gort::run(|| {
        let (mut one, mut two) = pair();
        let mut buffer = [0; 64];
        // Waits twice, so that everything is known.
        let exchange = |one: &mut TcpStream, two: &mut TcpStream, buffer: &mut [u8]| {
            for _ in 0..2 {
                let mut sender = two.try_clone().unwrap();
                let sends = gort::spawn(move || {
                    gort::yield_now();
                    sender.write_all(b"some").unwrap();
                });
                assert_eq!(one.read(buffer).unwrap(), 4);
                sends.join().unwrap();
            }
        };
        exchange(&mut one, &mut two, &mut buffer);
        let begin = Instant::now();
        let time = Duration::from_millis(10);
        one.set_read_timeout(Some(time)).unwrap();
        assert_eq!(one.read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(begin.elapsed() >= time);
        one.set_read_timeout(None).unwrap();
        exchange(&mut one, &mut two, &mut buffer);
        // By another number of the same open file.
        let other = one.try_clone().unwrap();
        other.set_nonblocking(true).unwrap();
        assert_eq!(one.read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        unsafe { assert_eq!(libc::fcntl(other.as_raw_fd(), libc::F_SETFL, 0), 0) };
        exchange(&mut one, &mut two, &mut buffer);
        unsafe { assert_eq!(libc::fcntl(other.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK), 0) };
        assert_eq!(one.read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn the_end_of_a_stream_is_seen_at_any_moment() {
    let _watchdog = super::enable();
    let rounds = amount(300, 20_000);
    gort::run(move || {
        for round in 0..rounds {
            let (mut one, mut two) = pair();
            let ends = gort::spawn(move || {
                for piece in 0..round % 4 {
                    two.write_all(b"some").unwrap();
                    (0..(round + piece) % 3).for_each(|_| gort::yield_now());
                }
                (0..round % 7).for_each(|_| gort::yield_now());
            });
            let mut all = 0;
            loop {
                match one.read(&mut [0; 64]).unwrap() {
                    0 => break,
                    length => all += length,
                }
            }
            assert_eq!(all, round % 4 * 4);
            ends.join().unwrap();
        }
    });
}
