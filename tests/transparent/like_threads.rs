//! Odd calls have the same results in a goroutine as on a thread.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::common::{TempDir, alone, cpu_time};

/// Runs `f` on a thread and in a goroutine.
fn same<R: PartialEq + Debug + Send + 'static>(f: fn() -> R) -> R {
    let on_a_thread = thread::spawn(f).join().unwrap();
    assert_eq!(gort::run(f), on_a_thread);
    on_a_thread
}

/// What a function of libc returned, and errno if it failed.
fn result(returned: impl Into<i64>) -> (i64, i32) {
    match returned.into() {
        -1 => (-1, std::io::Error::last_os_error().raw_os_error().unwrap()),
        other => (other, 0),
    }
}

#[test]
fn connecting_again_says_how_the_first_connection_ended() {
    let _watchdog = super::enable();
    let results = same(|| unsafe {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as _,
            sin_port: port.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
            sin_zero: [0; 8],
        };
        let size = size_of::<libc::sockaddr_in>() as _;
        let connect = |socket| result(libc::connect(socket, (&raw const address).cast(), size));
        let first = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let connected = [connect(first), connect(first)];
        drop(listener);
        let second = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let refused = [connect(second), connect(second)];
        libc::close(first);
        libc::close(second);
        (connected, refused)
    });
    assert_eq!(results.0, [(0, 0), (-1, libc::EISCONN)]);
    assert_eq!(results.1, [(-1, libc::ECONNREFUSED); 2]);
}

#[test]
fn reads_of_nothing_return_at_once_and_take_nothing() {
    let _watchdog = super::enable();
    let results = same(|| unsafe {
        let (stream, _peer) = UnixStream::pair().unwrap();
        let (socket, sender) = UnixDatagram::pair().unwrap();
        sender.send(b"whole").unwrap();
        let nothing = libc::read(socket.as_raw_fd(), [0u8; 1].as_mut_ptr().cast(), 0);
        let message = socket.recv(&mut [0; 8]).unwrap();
        let empty = libc::read(stream.as_raw_fd(), [0u8; 1].as_mut_ptr().cast(), 0);
        (nothing, message, empty, libc::readv(stream.as_raw_fd(), null(), 0))
    });
    assert_eq!(results, (0, 5, 0, 0));
}

#[test]
fn calls_for_several_messages_heed_their_flags() {
    let _watchdog = super::enable();
    let results = same(|| unsafe {
        let (socket, sender) = UnixDatagram::pair().unwrap();
        let mut buffer = [0u8; 8];
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: 8 };
        let mut message: libc::mmsghdr = std::mem::zeroed();
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (&raw mut part, 1);
        let fd = socket.as_raw_fd();
        let empty = result(libc::recvmmsg(fd, &raw mut message, 1, libc::MSG_DONTWAIT as _, null_mut()));
        let none = result(libc::recvmmsg(fd, &raw mut message, 0, 0, null_mut()));
        sender.send(b"two").unwrap();
        let one = result(libc::recvmmsg(fd, &raw mut message, 1, 0, null_mut()));
        (empty, none, one, message.msg_len)
    });
    assert_eq!(results, ((-1, libc::EAGAIN), (0, 0), (1, 0), 3));
}

#[test]
fn waits_for_children_fail_at_once_where_there_is_no_child() {
    let _watchdog = super::enable();
    same(|| unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let mut wait = |kind, id, options| result(libc::waitid(kind, id, &raw mut info, options));
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let stranger = wait(libc::P_PID, 1, libc::WEXITED);
        let for_nothing = wait(libc::P_PID, child.id(), 0);
        let pidfd = libc::syscall(libc::SYS_pidfd_open, child.id(), libc::O_NONBLOCK);
        let not_waiting = wait(libc::P_PIDFD, pidfd as u32, libc::WEXITED);
        let nobodys = result(libc::waitpid(1, null_mut(), 0));
        child.kill().unwrap();
        let ended = wait(libc::P_PID, child.id(), libc::WEXITED);
        libc::close(pidfd as i32);
        [stranger, for_nothing, not_waiting, nobodys, ended]
    });
}

#[test]
fn a_terminal_whose_reads_do_not_wait_returns_nothing() {
    let _watchdog = super::enable();
    let results = same(|| unsafe {
        let (mut master, mut terminal) = (0, 0);
        assert_eq!(libc::openpty(&mut master, &mut terminal, null_mut(), null_mut(), null_mut()), 0);
        let mut settings: libc::termios = std::mem::zeroed();
        libc::tcgetattr(terminal, &mut settings);
        libc::cfmakeraw(&mut settings);
        (settings.c_cc[libc::VMIN], settings.c_cc[libc::VTIME]) = (0, 1);
        libc::tcsetattr(terminal, libc::TCSANOW, &settings);
        let mut buffer = [0u8; 4];
        let empty = libc::read(terminal, buffer.as_mut_ptr().cast(), 4);
        let zero = libc::read(terminal, buffer.as_mut_ptr().cast(), 0);
        libc::write(master, c"key".as_ptr().cast(), 3);
        let key = libc::read(terminal, buffer.as_mut_ptr().cast(), 4);
        libc::close(master);
        libc::close(terminal);
        (empty, zero, key)
    });
    assert_eq!(results, (0, 0, 3));
}

/// epoll says that the descriptor is ready, and the call would block nevertheless: no attempt follows
/// another.
#[test]
fn a_call_that_cannot_be_waited_for_does_not_spin() {
    if !alone("like_threads::a_call_that_cannot_be_waited_for_does_not_spin") {
        return;
    }
    let _watchdog = super::enable();
    let directory = TempDir::new();
    let path = directory.path().join("socket");
    let receiver = UnixDatagram::bind(&path).unwrap();
    gort::run(move || unsafe {
        let wait = Duration::from_millis(500);
        let before = cpu_time();
        // A full receiver, to which the sender is not connected.
        let drains = thread::spawn(move || {
            thread::sleep(wait);
            (0..1000).for_each(|_| assert_eq!(receiver.recv(&mut [0; 4]).unwrap(), 1));
        });
        let sender = UnixDatagram::unbound().unwrap();
        (0..1000).for_each(|_| assert_eq!(sender.send_to(b"x", &path).unwrap(), 1));
        drains.join().unwrap();
        // A pipe without a writer, of which only exceptional conditions are asked.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        let mut set: libc::fd_set = std::mem::zeroed();
        libc::FD_SET(reader.as_raw_fd(), &raw mut set);
        let mut time = libc::timeval { tv_sec: 0, tv_usec: wait.subsec_micros().into() };
        let count = reader.as_raw_fd() + 1;
        assert_eq!(libc::select(count, null_mut(), null_mut(), &raw mut set, &raw mut time), 0);
        let used = cpu_time() - before;
        assert!(used < wait / 2, "{used:?} of CPU time in {:?}", 2 * wait);
    });
}

#[test]
fn odd_arguments_of_poll_and_select_have_their_meaning() {
    let _watchdog = super::enable();
    let results = same(|| unsafe {
        let nothing = libc::poll(null_mut(), 0, 5);
        let mut set: libc::fd_set = std::mem::zeroed();
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 1000 };
        // The kernel reduces the count to the size of the table of descriptors.
        let many = libc::select(1 << 16, null_mut(), null_mut(), null_mut(), &raw mut time);
        let negative = result(libc::select(-1, &raw mut set, null_mut(), null_mut(), &raw mut time));
        (nothing, many, negative)
    });
    assert_eq!(results, (0, 0, (-1, libc::EINVAL)));
}

#[test]
fn a_wait_goes_on_with_the_open_file_when_its_number_is_closed() {
    if !alone("like_threads::a_wait_goes_on_with_the_open_file_when_its_number_is_closed") {
        return;
    }
    let _watchdog = super::enable();
    let results = same(|| unsafe {
        // The call has begun for sure when it has been about to begin for this long.
        static BEGINS: AtomicU32 = AtomicU32::new(0);
        let when_it_waits = |number: u32| {
            while BEGINS.load(Ordering::SeqCst) != number {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(200));
        };
        let begin = |number| BEGINS.store(number, Ordering::SeqCst);
        begin(0);
        // epoll_wait
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let instance = libc::epoll_create1(0);
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
        libc::epoll_ctl(instance, libc::EPOLL_CTL_ADD, reader.as_raw_fd(), &raw mut event);
        let closer = thread::spawn(move || {
            when_it_waits(1);
            libc::close(instance);
            thread::sleep(Duration::from_millis(10));
            writer.write_all(b"x").unwrap();
            writer
        });
        let mut events: [libc::epoll_event; 1] = std::mem::zeroed();
        begin(1);
        let waited = result(libc::epoll_wait(instance, events.as_mut_ptr(), 1, 100_000));
        let _writer = closer.join().unwrap();
        reader.read_exact(&mut [0]).unwrap();
        // splice, from a socket into a pipe
        let (socket, mut peer) = UnixStream::pair().unwrap();
        let (mut target, into) = std::io::pipe().unwrap();
        let socket = socket.into_raw_fd();
        let closer = thread::spawn(move || {
            when_it_waits(2);
            libc::close(socket);
            thread::sleep(Duration::from_millis(10));
            peer.write_all(b"y").unwrap();
        });
        begin(2);
        let moved = result(libc::splice(socket, null_mut(), into.as_raw_fd(), null_mut(), 1, 0) as i64);
        closer.join().unwrap();
        target.read_exact(&mut [0]).unwrap();
        (waited, { events[0].u64 }, moved)
    });
    assert_eq!(results, ((1, 0), 7, (1, 0)));
}

#[test]
fn a_number_that_was_a_pipe_and_is_a_file_now_can_be_read() {
    if !alone("like_threads::a_number_that_was_a_pipe_and_is_a_file_now_can_be_read") {
        return;
    }
    let _watchdog = super::enable();
    let results = same(|| unsafe {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"p").unwrap();
        reader.read_exact(&mut [0]).unwrap();
        let number = reader.into_raw_fd();
        let file = libc::open(c"/proc/self/exe".as_ptr(), libc::O_RDONLY);
        // Behind libc's back, by inline system calls: what was known of the number is wrong now.
        let moved: i64;
        std::arch::asm!("syscall", inlateout("rax") libc::SYS_dup2 => moved, in("rdi") i64::from(file),
            in("rsi") i64::from(number), out("rcx") _, out("r11") _);
        let read = libc::read(number, [0u8; 4].as_mut_ptr().cast(), 4);
        libc::close(file);
        libc::close(number);
        (moved == i64::from(number), read)
    });
    assert_eq!(results, (true, 4));
}

#[test]
fn requeues_move_waiters_and_count_them() {
    if !alone("like_threads::requeues_move_waiters_and_count_them") {
        return;
    }
    let _watchdog = super::enable();
    fn futex(word: &AtomicU32, operation: i32, value: usize, most: usize, other: &AtomicU32) -> i64 {
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, most, other.as_ptr(), 0) }
    }
    for marked in [false, true] {
        gort::run(move || {
            static FROM: AtomicU32 = AtomicU32::new(0);
            static TO: AtomicU32 = AtomicU32::new(0);
            let waiters: Vec<_> = (0..4)
                .map(|_| {
                    let before = gort::runtime::stats().goroutines.waiting;
                    let waiter = gort::spawn(|| futex(&FROM, libc::FUTEX_WAIT, 0, 0, &TO));
                    super::common::until("it waits", || gort::runtime::stats().goroutines.waiting > before);
                    waiter
                })
                .collect();
            let requeue = || futex(&FROM, libc::FUTEX_REQUEUE, 1, 2, &TO);
            assert_eq!(if marked { gort::blocking(requeue) } else { requeue() }, 3);
            // To itself, and as often as it likes.
            assert!(futex(&FROM, libc::FUTEX_REQUEUE, 0, i32::MAX as usize, &FROM) >= 0);
            assert_eq!(futex(&FROM, libc::FUTEX_WAKE, 9, 0, &TO), 1);
            assert_eq!(futex(&TO, libc::FUTEX_WAKE, 9, 0, &TO), 2);
            waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), 0));
            assert_eq!(FROM.load(Ordering::Relaxed), 0);
        });
    }
}

#[test]
fn an_absolute_sleep_in_a_bubble_takes_virtual_time() {
    let _watchdog = super::enable();
    gort::testing::bubble(|| {
        let begin = gort::time::now();
        unsafe {
            let mut time: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
            time.tv_sec += 3600;
            let absolute = libc::TIMER_ABSTIME;
            assert_eq!(
                libc::clock_nanosleep(libc::CLOCK_MONOTONIC, absolute, &raw const time, null_mut()),
                0
            );
        }
        let passed = gort::time::now() - begin;
        assert!((Duration::from_secs(3500)..Duration::from_secs(3601)).contains(&passed), "{passed:?}");
    });
}

#[test]
fn lengths_that_are_too_large_together_are_judged_by_the_kernel() {
    let _watchdog = super::enable();
    let results = same(|| unsafe {
        let (one, two) = UnixStream::pair().unwrap();
        let mut bytes = *b"ab";
        let mut part = |iov_len| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len };
        let negative = [part(2), part(usize::MAX - 1), part(usize::MAX - 1)];
        let read = result(libc::readv(one.as_raw_fd(), negative.as_ptr(), 3) as i64);
        let written = result(libc::writev(two.as_raw_fd(), negative.as_ptr(), 3) as i64);
        (read, written)
    });
    assert_eq!(results, ((-1, libc::EINVAL), (-1, libc::EINVAL)));
}
