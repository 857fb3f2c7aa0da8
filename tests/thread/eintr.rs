//! The runtime's signal makes no system call of the program fail with EINTR. sysmon does not signal a
//! thread that sleeps; but a thread may fall asleep between sysmon's look and the signal. So here the
//! signal comes when the thread is inside the call for sure.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a call of libc, which gets descriptors that live and memory of the right kind"
)]

#[path = "../common/mod.rs"]
mod common;

use std::ffi::c_void;
use std::io::{self, Write, pipe};
use std::mem::zeroed;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::ptr::{null, null_mut};
use std::sync::mpsc;
use std::time::Duration;

use common::{tid, until};

/// How long the calls wait if nothing ends them (ms). Each signal may start a call's time anew.
const MILLIS: i32 = 100;
const SIGNALS: usize = 20;

unsafe extern "C" {
    fn semtimedop(set: i32, operations: *mut libc::sembuf, count: usize, time: *const libc::timespec) -> i32;
}

fn time() -> libc::timespec {
    libc::timespec { tv_sec: 0, tv_nsec: i64::from(MILLIS) * 1_000_000 }
}

/// The time of the clock at which a wait until then has lasted [`MILLIS`].
fn deadline() -> libc::timespec {
    let mut now = time();
    // SAFETY: writes the timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    let nanos = now.tv_nsec + i64::from(MILLIS) * 1_000_000;
    libc::timespec { tv_sec: now.tv_sec + nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 }
}

fn is_asleep(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim_start().starts_with('S')
}

/// Sends the runtime's own signal, as sysmon does.
fn send_runtime_signal(tid: i32) {
    #[repr(C)]
    struct Queued {
        head: [i32; 4],
        pid: i32,
        uid: u32,
        value: usize,
        rest: [u8; 96],
    }
    // SAFETY: the kernel reads a record of the size of its siginfo.
    unsafe {
        let (pid, uid) = (libc::getpid(), libc::getuid());
        let head = [libc::SIGURG, 0, libc::SI_QUEUE, 0];
        let info = Queued { head, pid, uid, value: 0x676f_7274, rest: [0; 96] };
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, libc::SIGURG, &raw const info);
    }
}

/// Sends signals to a goroutine inside `call`, then calls `finish`. The call returns a negative number if it
/// failed; the error must not be EINTR.
fn interrupt(name: &str, call: impl FnOnce() -> i64 + Send + 'static, finish: impl FnOnce()) {
    let (ready, thread) = mpsc::channel();
    let caller = gort::spawn(move || {
        ready.send(tid()).unwrap();
        if call() < 0 { io::Error::last_os_error().raw_os_error() } else { None }
    });
    let thread = thread.recv().unwrap();
    until(&format!("{name} waits"), || is_asleep(thread));
    for _ in 0..SIGNALS {
        send_runtime_signal(thread);
        std::thread::sleep(Duration::from_millis(1));
    }
    finish();
    assert_ne!(caller.join().unwrap(), Some(libc::EINTR), "{name} was interrupted");
}

fn with_timeout(name: &str, call: impl FnOnce() -> i64 + Send + 'static) {
    interrupt(name, call, || ());
}

#[test]
fn calls_with_a_timeout_are_not_interrupted() {
    with_timeout("poll", || unsafe { libc::poll(null_mut(), 0, MILLIS).into() });
    with_timeout("ppoll", || unsafe { libc::ppoll(null_mut(), 0, &time(), null()).into() });
    with_timeout("select", || unsafe {
        let mut left = libc::timeval { tv_sec: 0, tv_usec: i64::from(MILLIS) * 1000 };
        libc::select(0, null_mut(), null_mut(), null_mut(), &raw mut left).into()
    });
    with_timeout("pselect", || unsafe {
        libc::pselect(0, null_mut(), null_mut(), null_mut(), &time(), null()).into()
    });
    with_timeout("epoll_wait", || unsafe {
        let (poller, mut events) = (libc::epoll_create1(libc::EPOLL_CLOEXEC), [zeroed(); 1]);
        let result = libc::epoll_wait(poller, events.as_mut_ptr(), 1, MILLIS);
        let error = *libc::__errno_location();
        libc::close(poller);
        *libc::__errno_location() = error;
        result.into()
    });
    with_timeout("epoll_pwait2", || unsafe {
        unsafe extern "C" {
            fn epoll_pwait2(
                poller: i32,
                events: *mut libc::epoll_event,
                most: i32,
                time: *const libc::timespec,
                mask: *const libc::sigset_t,
            ) -> i32;
        }
        let (poller, mut events) = (libc::epoll_create1(libc::EPOLL_CLOEXEC), [zeroed(); 1]);
        let result = epoll_pwait2(poller, events.as_mut_ptr(), 1, &time(), null());
        let error = *libc::__errno_location();
        libc::close(poller);
        *libc::__errno_location() = error;
        result.into()
    });
    with_timeout("nanosleep", || unsafe { libc::nanosleep(&time(), null_mut()).into() });
    with_timeout("nanosleep with a remainder", || unsafe {
        let mut left = time();
        libc::nanosleep(&time(), &raw mut left).into()
    });
    with_timeout("clock_nanosleep", || unsafe {
        let error = libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &time(), null_mut());
        *libc::__errno_location() = error;
        if error == 0 { 0 } else { -1 }
    });
    with_timeout("usleep", || unsafe { libc::usleep(MILLIS as u32 * 1000).into() });
    with_timeout("sem_timedwait", || unsafe {
        let mut semaphore = zeroed();
        libc::sem_init(&raw mut semaphore, 0, 0);
        libc::sem_timedwait(&raw mut semaphore, &deadline()).into()
    });
    with_timeout("semtimedop", || unsafe {
        let set = libc::semget(libc::IPC_PRIVATE, 1, 0o600);
        let mut wait = libc::sembuf { sem_num: 0, sem_op: -1, sem_flg: 0 };
        let result = i64::from(semtimedop(set, &raw mut wait, 1, &time()));
        let error = *libc::__errno_location();
        libc::semctl(set, 0, libc::IPC_RMID);
        *libc::__errno_location() = error;
        result
    });
}

/// The function `syscall`, whose callers name the call.
#[test]
fn calls_by_number_are_not_interrupted() {
    with_timeout("poll by number", || unsafe { libc::syscall(libc::SYS_poll, 0, 0, MILLIS) });
    with_timeout("pselect by number", || unsafe {
        // Six arguments: the last one is on the stack.
        libc::syscall(libc::SYS_pselect6, 0, 0, 0, 0, &time(), 0)
    });
    with_timeout("nanosleep by number", || unsafe { libc::syscall(libc::SYS_nanosleep, &time(), 0) });
    with_timeout("futex by number", || unsafe {
        let word = 0u32;
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, &raw const word, operation, 0, &time())
    });
}

#[test]
fn calls_by_number_return_results_and_errors() {
    gort::run(|| unsafe {
        assert_eq!(libc::syscall(libc::SYS_getpid), i64::from(libc::getpid()));
        assert_eq!(libc::syscall(libc::SYS_close, -1), -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
        // The sixth argument is the offset, which must be a multiple of a page.
        let map = |offset: i64| {
            let kind = libc::MAP_PRIVATE;
            let file = std::fs::File::open("/proc/self/exe").unwrap();
            libc::syscall(libc::SYS_mmap, 0, 4096usize, libc::PROT_READ, kind, file.as_raw_fd(), offset)
        };
        assert_eq!(map(1), -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
        let page = map(0);
        assert_ne!(page, -1);
        assert_eq!(*(page as *const [u8; 4]), *b"\x7fELF");
        libc::munmap(page as *mut _, 4096);
    });
}

#[test]
fn socket_calls_with_a_timeout_are_not_interrupted() {
    let patience = Some(Duration::from_millis(MILLIS as u64));
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    socket.set_read_timeout(patience).unwrap();
    let mut buffer = [0u8; 8];
    let receive = socket.try_clone().unwrap();
    with_timeout("recv", move || unsafe {
        libc::recv(receive.as_raw_fd(), buffer.as_mut_ptr().cast(), 8, 0) as i64
    });
    let receive = socket.try_clone().unwrap();
    with_timeout("recvfrom", move || unsafe {
        let mut from: libc::sockaddr_storage = zeroed();
        let mut length = size_of_val(&from) as u32;
        let from = (&raw mut from).cast();
        libc::recvfrom(receive.as_raw_fd(), buffer.as_mut_ptr().cast(), 8, 0, from, &raw mut length) as i64
    });
    let receive = socket.try_clone().unwrap();
    with_timeout("read", move || unsafe {
        libc::read(receive.as_raw_fd(), buffer.as_mut_ptr().cast(), 8) as i64
    });
    let receive = socket.try_clone().unwrap();
    with_timeout("readv", move || unsafe {
        let part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: 8 };
        libc::readv(receive.as_raw_fd(), &part, 1) as i64
    });
    with_timeout("recvmsg", move || unsafe {
        let mut message: libc::msghdr = zeroed();
        libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) as i64
    });
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    UdpSocket::from(std::os::fd::OwnedFd::from(listener.try_clone().unwrap()))
        .set_read_timeout(patience)
        .unwrap();
    with_timeout("accept", move || unsafe {
        libc::accept(listener.as_raw_fd(), null_mut(), null_mut()).into()
    });
}

/// Calls that send wait while the peer does not read.
#[test]
fn calls_to_a_full_socket_are_not_interrupted() {
    let (socket, _peer) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    while (&socket).write(&[0; 4096]).is_ok() {}
    socket.set_nonblocking(false).unwrap();
    socket.set_write_timeout(Some(Duration::from_millis(MILLIS as u64))).unwrap();
    let full = |call: unsafe fn(i32, *mut c_void) -> isize| {
        let socket = socket.try_clone().unwrap();
        move || unsafe { call(socket.as_raw_fd(), [0u8; 8].as_mut_ptr().cast()) as i64 }
    };
    with_timeout("send", full(|fd, bytes| unsafe { libc::send(fd, bytes, 8, 0) }));
    with_timeout("sendto", full(|fd, bytes| unsafe { libc::sendto(fd, bytes, 8, 0, null(), 0) }));
    with_timeout("write", full(|fd, bytes| unsafe { libc::write(fd, bytes, 8) }));
    with_timeout(
        "writev",
        full(|fd, bytes| unsafe {
            let part = libc::iovec { iov_base: bytes, iov_len: 8 };
            libc::writev(fd, &part, 1)
        }),
    );
    with_timeout(
        "sendmsg",
        full(|fd, bytes| unsafe {
            let mut part = libc::iovec { iov_base: bytes, iov_len: 8 };
            let mut message: libc::msghdr = zeroed();
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            libc::sendmsg(fd, &message, 0)
        }),
    );
}

#[test]
fn message_queues_of_system_v_are_not_interrupted() {
    let queue = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
    assert!(queue >= 0, "{}", io::Error::last_os_error());
    let limit = unsafe {
        let mut state: libc::msqid_ds = zeroed();
        assert_eq!(libc::msgctl(queue, libc::IPC_STAT, &raw mut state), 0);
        state.msg_qbytes as usize
    };
    // A type and a text, as large as the kernel lets it be for sure.
    let message = |kind: i64| [kind; 1 + 4096 / 8];
    let send = move |flags: i32| unsafe { libc::msgsnd(queue, message(1).as_ptr().cast(), 4096, flags) };
    interrupt(
        "msgrcv",
        move || unsafe { libc::msgrcv(queue, message(0).as_mut_ptr().cast(), 4096, 0, 0) as i64 },
        || assert_eq!(send(0), 0),
    );
    for _ in 0..limit / 4096 {
        assert_eq!(send(libc::IPC_NOWAIT), 0);
    }
    interrupt(
        "msgsnd",
        move || send(0).into(),
        || {
            assert!(unsafe { libc::msgrcv(queue, message(0).as_mut_ptr().cast(), 4096, 0, 0) } >= 0);
        },
    );
    assert_eq!(unsafe { libc::msgctl(queue, libc::IPC_RMID, null_mut()) }, 0);
}

#[test]
fn calls_without_a_timeout_are_not_interrupted() {
    let (reader, mut writer) = pipe().unwrap();
    let input = reader.try_clone().unwrap();
    interrupt(
        "poll without a limit",
        move || unsafe {
            let mut wanted = libc::pollfd { fd: input.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            libc::poll(&raw mut wanted, 1, -1).into()
        },
        || writer.write_all(b"12345678").unwrap(),
    );
    let mut drained = [0u8; 8];
    io::Read::read_exact(&mut &reader, &mut drained).unwrap();
    let mut buffer = [0u8; 1];
    interrupt(
        "read from a pipe",
        move || unsafe { libc::read(reader.as_raw_fd(), buffer.as_mut_ptr().cast(), 1) as i64 },
        || writer.write_all(b"1").unwrap(),
    );
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = child.id() as i32;
    interrupt(
        "waitid",
        // The child stays to be waited for.
        move || unsafe {
            libc::waitid(libc::P_PID, pid as u32, &mut zeroed(), libc::WEXITED | libc::WNOWAIT).into()
        },
        || child.kill().unwrap(),
    );
    child.wait().unwrap();
}
