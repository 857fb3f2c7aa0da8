//! What callers of libc count on: errno, cancellation, calls before `main` and after its end.

use std::ffi::c_void;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use super::common::{Procs, TempDir, alone, until};

fn waiting() -> usize {
    gort::runtime::stats().goroutines.waiting
}

/// Starts a goroutine, and returns when it waits.
fn that_waits<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> gort::JoinHandle<R> {
    let before = waiting();
    let waits = gort::spawn(f);
    until("it waits", || waiting() > before);
    waits
}

#[inline(never)]
fn errno() -> i32 {
    unsafe { *libc::__errno_location() }
}

#[inline(never)]
fn set_errno(number: i32) {
    unsafe { *libc::__errno_location() = number };
}

#[test]
fn calls_that_wait_and_succeed_leave_errno_alone() {
    if !alone("contract::calls_that_wait_and_succeed_leave_errno_alone") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        fn untouched<R>(f: impl FnOnce() -> R) -> R {
            set_errno(77);
            let result = f();
            assert_eq!(errno(), 77);
            result
        }
        let (one, mut two) = UnixStream::pair().unwrap();
        let fd = one.as_raw_fd();
        let reads =
            that_waits(move || untouched(|| unsafe { libc::read(fd, [0u8; 1].as_mut_ptr().cast(), 1) }));
        two.write_all(b"x").unwrap();
        assert_eq!(reads.join().unwrap(), 1);
        let polls = that_waits(move || {
            let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            untouched(|| unsafe { libc::poll(&raw mut entry, 1, -1) })
        });
        two.write_all(b"x").unwrap();
        assert_eq!(polls.join().unwrap(), 1);
        untouched(|| unsafe { libc::usleep(1000) });
        static WORD: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let futex = |operation: i32, value: i32| unsafe {
            let operation = operation | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, WORD.as_ptr(), operation, value, 0usize, 0usize, 0usize)
        };
        let waits = that_waits(move || untouched(|| futex(libc::FUTEX_WAIT, 0)));
        assert_eq!(untouched(|| futex(libc::FUTEX_WAKE, 1)), 1);
        assert_eq!(waits.join().unwrap(), 0);
    });
}

#[test]
fn a_thread_can_be_cancelled_in_a_call() {
    if !alone("contract::a_thread_can_be_cancelled_in_a_call") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        static PIPE: AtomicI32 = AtomicI32::new(-1);
        extern "C-unwind" fn reads(_: *mut c_void) -> *mut c_void {
            unsafe { libc::read(PIPE.load(Ordering::Relaxed), [0u8; 1].as_mut_ptr().cast(), 1) };
            null_mut()
        }
        unsafe extern "C" {
            fn pthread_create(
                thread: *mut libc::pthread_t,
                attributes: *const libc::pthread_attr_t,
                start: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
                argument: *mut c_void,
            ) -> i32;
        }
        let (reader, _writer) = std::io::pipe().unwrap();
        PIPE.store(reader.as_raw_fd(), Ordering::Relaxed);
        let result = gort::blocking(|| unsafe {
            let (mut thread, mut result) = (0, null_mut());
            assert_eq!(pthread_create(&raw mut thread, null(), reads, null_mut()), 0);
            thread::sleep(Duration::from_millis(50));
            assert_eq!(libc::pthread_cancel(thread), 0);
            assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
            result as isize
        });
        assert_eq!(result, -1, "PTHREAD_CANCELED");
    });
}

/// What calls before `main` did: 1 if all is well.
static BEFORE_MAIN: AtomicI32 = AtomicI32::new(0);

/// 1 if calls that would wait in a goroutine work here.
fn calls_work() -> i32 {
    let mut pipe = [0; 2];
    let mut byte = 0u8;
    let time = libc::timespec { tv_sec: 0, tv_nsec: 1000 };
    unsafe {
        let made = libc::pipe(pipe.as_mut_ptr()) == 0;
        let slept = libc::nanosleep(&raw const time, null_mut()) == 0;
        let written = libc::write(pipe[1], c"b".as_ptr().cast(), 1) == 1;
        let read = libc::read(pipe[0], (&raw mut byte).cast(), 1) == 1;
        let called = libc::syscall(libc::SYS_getpid) == i64::from(libc::getpid());
        let closed = libc::close(pipe[0]) == 0 && libc::close(pipe[1]) == 0;
        i32::from(made && slept && written && read && called && closed && byte == b'b')
    }
}

extern "C" fn before_main() {
    BEFORE_MAIN.store(calls_work(), Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = before_main;

#[test]
fn calls_work_before_main_and_after_its_end() {
    if !alone("contract::calls_work_before_main_and_after_its_end") {
        return;
    }
    let _watchdog = super::enable();
    assert_eq!(BEFORE_MAIN.load(Ordering::Relaxed), 1);
    extern "C" fn at_exit() {
        if calls_work() != 1 {
            unsafe { libc::_exit(99) };
        }
    }
    assert_eq!(unsafe { libc::atexit(at_exit) }, 0);
    // Goroutines that wait are left behind.
    gort::run(|| drop(gort::spawn(|| thread::sleep(Duration::from_secs(3600)))));
}

#[test]
fn messages_with_and_without_descriptors_wait() {
    if !alone("contract::messages_with_and_without_descriptors_wait") {
        return;
    }
    let _watchdog = super::enable();
    /// Receives a message. Returns its length, and the descriptor that came with it.
    fn receive(fd: i32) -> (isize, Option<OwnedFd>) {
        let (mut bytes, mut control) = ([0u8; 10], [0u64; 8]);
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 10 };
        unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            (message.msg_control, message.msg_controllen) =
                (control.as_mut_ptr().cast(), size_of_val(&control));
            let length = libc::recvmsg(fd, &raw mut message, 0);
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            let passed = (!header.is_null())
                .then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<i32>().read_unaligned()));
            (length, passed)
        }
    }
    gort::run(|| {
        let (one, two) = UnixStream::pair().unwrap();
        let fd = two.as_raw_fd();
        let receives = that_waits(move || receive(fd));
        let (reader, mut writer) = std::io::pipe().unwrap();
        super::trust::send_with_descriptor(&one, reader.as_raw_fd());
        drop(reader);
        let (length, passed) = receives.join().unwrap();
        assert_eq!(length, 2);
        // What was passed waits, too.
        let mut reader = std::io::PipeReader::from(passed.unwrap());
        let reads = that_waits(move || {
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            byte
        });
        writer.write_all(b"p").unwrap();
        assert_eq!(reads.join().unwrap(), [b'p']);
        // A sender waits for room.
        let fd = one.as_raw_fd();
        let sends = that_waits(move || {
            let bytes = vec![1u8; 4 << 20];
            let part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            unsafe {
                let mut message: libc::msghdr = std::mem::zeroed();
                (message.msg_iov, message.msg_iovlen) = ((&raw const part).cast_mut(), 1);
                libc::sendmsg(fd, &raw const message, 0)
            }
        });
        let mut two = two;
        two.read_exact(&mut vec![0; 4 << 20]).unwrap();
        assert_eq!(sends.join().unwrap(), 4 << 20);
    });
}

#[test]
fn ppoll_and_pselect_wait() {
    if !alone("contract::ppoll_and_pselect_wait") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let one = UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = one.as_raw_fd();
        let address = one.local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let polls = that_waits(move || {
            let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            (unsafe { libc::ppoll(&raw mut entry, 1, null(), null()) }, entry.revents)
        });
        let selects = that_waits(move || unsafe {
            let mut set: libc::fd_set = std::mem::zeroed();
            libc::FD_SET(fd, &raw mut set);
            libc::pselect(fd + 1, &raw mut set, null_mut(), null_mut(), null(), null())
        });
        sender.send_to(b"x", address).unwrap();
        assert_eq!(polls.join().unwrap(), (1, libc::POLLIN));
        assert_eq!(selects.join().unwrap(), 1);
        one.recv(&mut [0; 1]).unwrap();
        let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        assert_eq!(unsafe { libc::ppoll(&raw mut entry, 1, &raw const time, null()) }, 0);
    });
}

#[test]
fn files_go_into_sockets_and_into_files() {
    let _watchdog = super::enable();
    let directory = TempDir::new();
    let path = directory.path().join("file");
    let size = 2 << 20;
    let content: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let target = directory.path().join("copy");
    gort::run(move || {
        let (one, two) = UnixStream::pair().unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let sends = gort::spawn(move || {
            let mut left = size as usize;
            while left > 0 {
                let sent = unsafe { libc::sendfile(two.as_raw_fd(), file.as_raw_fd(), null_mut(), left) };
                left -= usize::try_from(sent).unwrap();
            }
        });
        let mut all = Vec::new();
        (&one).read_to_end(&mut all).unwrap();
        sends.join().unwrap();
        assert!(all == content);
        // copy_file_range
        assert_eq!(std::fs::copy(&path, &target).unwrap(), size as u64);
        assert!(std::fs::read(&target).unwrap() == content);
    });
}

#[test]
fn one_file_goes_into_several_sockets_at_once() {
    let _watchdog = super::enable();
    let directory = TempDir::new();
    let path = directory.path().join("file");
    std::fs::write(&path, vec![7; 2 << 20]).unwrap();
    gort::run(move || {
        let file = std::sync::Arc::new(std::fs::File::open(&path).unwrap());
        // Nobody reads at the other end of the first, so it stays full.
        let sockets: Vec<_> = (0..2).map(|_| UnixStream::pair().unwrap()).collect();
        let mut sends = Vec::new();
        for (_, to) in &sockets {
            let (to, file) = (to.try_clone().unwrap(), std::sync::Arc::clone(&file));
            sends.push(gort::spawn(move || {
                let mut at = 0;
                while at < 2 << 20 {
                    let left = (2 << 20) - at as usize;
                    let sent = unsafe { libc::sendfile(to.as_raw_fd(), file.as_raw_fd(), &raw mut at, left) };
                    assert!(sent > 0);
                }
            }));
            gort::sleep(Duration::from_millis(20));
        }
        (&sockets[1].0).read_exact(&mut vec![0; 2 << 20]).unwrap();
        until("the second is done", || sends[1].is_finished());
        assert!(!sends[0].is_finished());
        (&sockets[0].0).read_exact(&mut vec![0; 2 << 20]).unwrap();
        sends.into_iter().for_each(|send| send.join().unwrap());
    });
}

#[test]
fn a_wait_for_a_lock_of_a_file_lets_others_run() {
    let _watchdog = super::enable();
    let _procs = Procs::set(1);
    let directory = TempDir::new();
    let path = directory.path().join("locked");
    gort::run(move || {
        let open = || std::fs::File::options().create(true).append(true).open(&path).unwrap();
        let lock = |file: &std::fs::File, kind: i32| unsafe {
            let mut range: libc::flock = std::mem::zeroed();
            range.l_type = kind as i16;
            libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &raw const range)
        };
        let (one, two) = (open(), open());
        assert_eq!(lock(&one, libc::F_WRLCK), 0);
        let waits = gort::spawn(move || lock(&two, libc::F_WRLCK));
        (0..100).for_each(|_| gort::yield_now());
        gort::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        assert_eq!(lock(&one, libc::F_UNLCK), 0);
        assert_eq!(waits.join().unwrap(), 0);
    });
}

#[test]
fn timed_waits_of_std_take_virtual_time_in_a_bubble() {
    let _watchdog = super::enable();
    let hour = Duration::from_secs(3600);
    let real = std::time::Instant::now();
    gort::testing::bubble(move || {
        let begin = gort::time::now();
        let (lock, condition) = (Mutex::new(0), Condvar::new());
        let (guard, result) = condition.wait_timeout(lock.lock().unwrap(), hour).unwrap();
        assert!(result.timed_out());
        drop(guard);
        thread::park_timeout(hour);
        let passed = gort::time::now() - begin;
        assert!(passed >= 2 * hour - Duration::from_secs(3), "{passed:?}");
        // A mutex that another goroutine of the bubble holds for some time.
        let lock = std::sync::Arc::new(lock);
        let other = std::sync::Arc::clone(&lock);
        let guard = lock.lock().unwrap();
        let waits = gort::spawn(move || *other.lock().unwrap() += 1);
        thread::sleep(hour);
        drop(guard);
        waits.join().unwrap();
        assert_eq!(*lock.lock().unwrap(), 1);
    });
    assert!(real.elapsed() < hour / 10);
}

#[test]
fn a_trace_shows_the_waits_of_std() {
    if !alone("contract::a_trace_shows_the_waits_of_std") {
        return;
    }
    let _watchdog = super::enable();
    let directory = TempDir::new();
    let path = directory.path().join("trace");
    gort::run(move || {
        gort::trace::start(std::fs::File::create(&path).unwrap()).unwrap();
        let (mut one, mut two) = UnixStream::pair().unwrap();
        let reads = that_waits(move || one.read_exact(&mut [0]).unwrap());
        let lock = std::sync::Arc::new(Mutex::new(()));
        let other = std::sync::Arc::clone(&lock);
        let guard = lock.lock().unwrap();
        let locks = that_waits(move || drop(other.lock().unwrap()));
        drop(guard);
        two.write_all(b"x").unwrap();
        reads.join().unwrap();
        locks.join().unwrap();
        gort::trace::stop().unwrap();
        let trace = std::fs::read(&path).unwrap();
        for reason in ["network", "sync (futex)"] {
            let found = trace.windows(reason.len()).any(|part| part == reason.as_bytes());
            assert!(found, "no wait because of {reason}");
        }
    });
}
