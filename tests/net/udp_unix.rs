//! UDP, Unix sockets, and other descriptors.

#[path = "../common/mod.rs"]
mod common;

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{TempDir, Watchdog, amount, cpu_time};
use gort::io::Pollable;
use gort::net::{Shutdown, UdpSocket, UnixDatagram, UnixListener, UnixStream};

/// Several datagrams may come as one edge, which must wake a reader for each of them.
#[test]
fn every_datagram_reaches_one_of_many_readers() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (to, from) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        let to = Arc::new(to);
        let (readers, rounds) = (8, amount(200, 5_000));
        let received = Arc::new(AtomicUsize::new(0));
        for round in 1..=rounds {
            let waiters: Vec<_> = (0..readers)
                .map(|_| {
                    let (to, received) = (to.clone(), received.clone());
                    gort::spawn(move || {
                        assert_eq!(to.recv(&mut [0; 8]).unwrap(), 4);
                        received.fetch_add(1, Ordering::Relaxed);
                    })
                })
                .collect();
            if round % 2 == 0 {
                gort::yield_now();
            }
            for _ in 0..readers {
                from.send(b"data").unwrap();
            }
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            assert_eq!(received.load(Ordering::Relaxed), readers * round);
        }
    });
}

#[test]
fn unix_streams_connect_and_talk() {
    let _watchdog = Watchdog::start();
    let dir = TempDir::new();
    let path = dir.path().join("socket");
    gort::run(move || {
        let listener = UnixListener::bind(&path).unwrap();
        let server = gort::spawn(move || {
            for stream in listener.incoming().take(50) {
                let stream = stream.unwrap();
                gort::spawn(move || std::io::copy(&mut &stream, &mut &stream));
            }
        });
        let clients: Vec<_> = (0..50u8)
            .map(|n| {
                let path = path.clone();
                gort::spawn(move || {
                    let mut stream = UnixStream::connect(path).unwrap();
                    stream.write_all(&[n; 100]).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                    let mut answer = Vec::new();
                    stream.read_to_end(&mut answer).unwrap();
                    assert_eq!(answer, [n; 100]);
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.join().unwrap();
    });
}

/// While the queue of a Unix listener is full, `connect` waits until a connection is accepted, and holds no
/// P.
#[test]
fn unix_connects_wait_while_the_queue_is_full() {
    let _watchdog = Watchdog::start();
    let dir = TempDir::new();
    let path = dir.path().join("socket");
    gort::run(move || {
        let listener = UnixListener::bind(&path).unwrap();
        let clients: Vec<_> = (0..300)
            .map(|_| {
                let path = path.clone();
                gort::spawn(move || UnixStream::connect(path).unwrap())
            })
            .collect();
        for _ in 0..300 {
            listener.accept().unwrap();
        }
        clients.into_iter().for_each(|client| drop(client.join().unwrap()));
    });
}

/// The kernel does not tell an unconnected sender that there is room again. The sender must find out by
/// itself.
#[test]
fn a_unix_datagram_to_a_full_queue_is_sent_when_there_is_room() {
    let _watchdog = Watchdog::start();
    let dir = TempDir::new();
    let path = dir.path().join("socket");
    gort::run(move || {
        let to = UnixDatagram::bind(&path).unwrap();
        let from = UnixDatagram::unbound().unwrap();
        from.set_nonblocking(true).unwrap();
        let mut queued = 0;
        while from.send_to(b"x", &path).is_ok() {
            queued += 1;
        }
        from.set_nonblocking(false).unwrap();
        let more = 20;
        let sender = gort::spawn({
            let path = path.clone();
            move || {
                for _ in 0..more {
                    from.send_to(b"x", &path).unwrap();
                }
            }
        });
        for _ in 0..queued + more {
            to.recv(&mut [0; 4]).unwrap();
        }
        sender.join().unwrap();
    });
}

#[test]
fn pipes_wake_their_reader_and_their_writer() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (reader, writer) = std::io::pipe().unwrap();
        let (mut reader, mut writer) = (Pollable::new(reader), Pollable::new(writer));
        assert!(reader.is_polled() && writer.is_polled());
        let length = 3 << 20; // more than a pipe holds
        let writing = gort::spawn(move || writer.write_all(&vec![9; length]).unwrap());
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), length);
        writing.join().unwrap();
    });
}

#[test]
fn a_closed_pollable_wakes_its_reader_and_a_deadline_does_so() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (reader, _writer) = std::io::pipe().unwrap();
        let reader = Arc::new(Pollable::new(reader));
        let deadline = Instant::now() + Duration::from_millis(5);
        reader.set_read_deadline(Some(deadline));
        assert_eq!((&*reader).read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::TimedOut);
        reader.set_read_deadline(None);
        let waiting = gort::spawn({
            let reader = reader.clone();
            move || (&*reader).read(&mut [0; 1]).unwrap_err().kind()
        });
        gort::yield_now();
        reader.close();
        assert_eq!(waiting.join().unwrap(), ErrorKind::ConnectionAborted);
    });
}

#[test]
fn a_regular_file_is_read_by_blocking() {
    gort::run(|| {
        let dir = TempDir::new();
        let path = dir.path().join("file");
        let file = File::create_new(&path).unwrap();
        let mut file = Pollable::new(file);
        assert!(!file.is_polled());
        file.write_all(b"content").unwrap();
        let mut file = file.into_inner();
        file.seek(SeekFrom::Start(0)).unwrap();
        drop(file);
        let mut text = String::new();
        Pollable::new(File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
    });
}

#[test]
fn a_descriptor_comes_back_in_the_mode_it_came_in() {
    let is_nonblocking = |fd: i32| {
        // SAFETY: no memory is passed.
        (unsafe { libc::fcntl(fd, libc::F_GETFL) }) & libc::O_NONBLOCK != 0
    };
    let (reader, _writer) = std::io::pipe().unwrap();
    let reader = Pollable::new(reader);
    assert!(is_nonblocking(reader.as_raw_fd()));
    let reader = reader.into_inner();
    assert!(!is_nonblocking(reader.as_raw_fd()));
    // A descriptor that is only lent.
    drop(Pollable::new(&reader));
    assert!(!is_nonblocking(reader.as_raw_fd()));
    let first = Pollable::new(&reader);
    drop(Pollable::new(&reader));
    assert!(is_nonblocking(first.as_raw_fd()));
    drop(first);
    assert!(!is_nonblocking(reader.as_raw_fd()));
    drop(Pollable::new(nonblocking(&reader)));
    assert!(is_nonblocking(reader.as_raw_fd()));
}

/// Sets O_NONBLOCK, as a program may do.
fn nonblocking<T: AsFd>(fd: T) -> T {
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }, 0);
    fd
}

#[test]
fn a_descriptor_that_comes_nonblocking_is_waited_for() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let reader = nonblocking(reader);
        let (sent, heard) = gort::chan::bounded(0);
        gort::scope(|s| {
            // The poller takes each descriptor once, so the second one blocks a thread.
            let first = Pollable::new(&reader);
            let second = Pollable::new(&reader);
            assert!(first.is_polled() && !second.is_polled());
            for mut reader in [first, second] {
                let sent = sent.clone();
                s.spawn(move || {
                    let mut byte = [0];
                    reader.read_exact(&mut byte).unwrap();
                    sent.send(byte[0]).unwrap();
                });
            }
            gort::sleep(Duration::from_millis(5));
            writer.write_all(b"x").unwrap();
            assert_eq!(heard.recv(), Ok(b'x'));
            writer.write_all(b"y").unwrap();
            assert_eq!(heard.recv(), Ok(b'y'));
        });
        // A deadline ends the wait, too.
        let (_first, second) = (Pollable::new(&reader), Pollable::new(&reader));
        second.set_read_deadline(Some(Instant::now() + Duration::from_millis(5)));
        assert_eq!(
            second.read_with(|&(mut reader)| reader.read(&mut [0])).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        second.set_read_deadline(None);
        gort::scope(|s| {
            let waiting = s.spawn(|| second.read_with(|&(mut reader)| reader.read(&mut [0])));
            gort::sleep(Duration::from_millis(5));
            second.close();
            assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::ConnectionAborted);
        });
    });
}

/// A read from a Unix socket ends where a descriptor was sent along, although more bytes are there.
#[test]
fn bytes_after_a_descriptor_are_read() {
    use std::os::unix::net::UnixStream as Std;
    let _watchdog = Watchdog::start();
    gort::run(|| {
        for _ in 0..20 {
            let (from, to) = Std::pair().unwrap();
            let (mut signal, signalled) = UnixStream::pair().unwrap();
            let to = UnixStream::from(to);
            send_with_descriptor(&from, b"a");
            (&from).write_all(b"b").unwrap();
            // When the poller reports this byte, it has reported what came before.
            let waiting = gort::spawn(move || (&signalled).read_exact(&mut [0]));
            gort::sleep(Duration::from_millis(1));
            signal.write_all(b"!").unwrap();
            waiting.join().unwrap().unwrap();
            let mut buf = [0; 64];
            assert_eq!((&to).read(&mut buf).unwrap(), 1);
            assert_eq!((&to).read(&mut buf).unwrap(), 1);
            assert_eq!(buf[0], b'b');
        }
    });
}

fn send_with_descriptor(socket: &std::os::unix::net::UnixStream, bytes: &[u8]) {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 4];
    // SAFETY: all parts of the message live until the call is over, and the control message fits.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write(socket.as_raw_fd());
        assert_eq!(libc::sendmsg(socket.as_raw_fd(), &raw const message, 0), bytes.len() as isize);
    }
}

/// The end of a context does not end a wait for a socket, and a reader that waits for its turn does not spin.
#[test]
fn a_reader_behind_another_one_does_not_spin_when_its_context_ends() {
    if !common::alone("a_reader_behind_another_one_does_not_spin_when_its_context_ends") {
        return;
    }
    gort::run(|| {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        socket.set_read_timeout(Some(common::patience())).unwrap();
        let address = socket.local_addr().unwrap();
        let receive = |socket: Arc<UdpSocket>| move || socket.recv(&mut [0; 8]).unwrap();
        let first = gort::spawn(receive(socket.clone()));
        gort::sleep(Duration::from_millis(5));
        let second = gort::spawn({
            let receive = receive(socket.clone());
            move || gort::time::timeout(Duration::from_millis(5), receive)
        });
        gort::sleep(Duration::from_millis(20));
        let before = cpu_time();
        gort::sleep(Duration::from_millis(300));
        let busy = cpu_time() - before;
        assert!(busy < Duration::from_millis(100), "{busy:?} of CPU time in 300 ms of waiting");
        for _ in 0..2 {
            socket.send_to(b"datagram", address).unwrap();
        }
        first.join().unwrap();
        let _it_may_say_that_its_time_is_over = second.join().unwrap();
    });
}
