//! Where the kernel refuses what a wait needs, the call holds its thread, and works.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use super::common::{alone, set_soft_limit, until};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

/// From now on, these system calls fail with that error on all threads of the process.
fn refuse(calls: &[libc::c_long], error: i32) {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for &call in calls {
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        program.push(libc::sock_filter { code, jt: 0, jf: 1, k: call as u32 });
        program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | error as u32));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let (mode, all_threads) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
        assert_eq!(libc::syscall(libc::SYS_seccomp, mode, all_threads, &raw const filter), 0);
    }
}

/// Data goes through sockets and pipes, and arrives late.
fn streams_work() {
    fn arrives(mut from: impl Read + Send + 'static, mut to: impl Write) {
        let reads = gort::spawn(move || {
            let mut text = String::new();
            from.read_to_string(&mut text).unwrap();
            text
        });
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(10));
            to.write_all(b"abc").unwrap();
        }
        drop(to);
        assert_eq!(reads.join().unwrap(), "abcabcabc");
    }
    let (one, two) = pair();
    arrives(one, two);
    let (one, two) = UnixStream::pair().unwrap();
    arrives(one, two);
    let (reader, writer) = std::io::pipe().unwrap();
    arrives(reader, writer);
}

#[test]
fn waits_work_where_epoll_watches_nothing_more() {
    if !alone("sandbox::waits_work_where_epoll_watches_nothing_more") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        gort::spawn(|| gort::sleep(Duration::from_millis(1))).join().unwrap();
        // The limit of a user (max_user_watches), or of memory.
        refuse(&[libc::SYS_epoll_ctl], libc::ENOSPC);
        streams_work();
    });
}

#[test]
fn waits_work_where_calls_that_do_not_block_are_refused() {
    if !alone("sandbox::waits_work_where_calls_that_do_not_block_are_refused") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let calls = [libc::SYS_recvmsg, libc::SYS_sendmsg, libc::SYS_preadv2, libc::SYS_pwritev2];
        refuse(&calls, libc::EPERM);
        streams_work();
    });
}

#[test]
fn waits_work_where_there_are_no_pidfds() {
    if !alone("sandbox::waits_work_where_there_are_no_pidfds") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        refuse(&[libc::SYS_pidfd_open], libc::ENOSYS);
        let mut child = std::process::Command::new("sleep").arg("0.05").spawn().unwrap();
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn waits_work_without_a_free_number() {
    if !alone("sandbox::waits_work_without_a_free_number") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let (one, mut two) = UnixStream::pair().unwrap();
        let (other, mut peer) = UnixStream::pair().unwrap();
        let last = std::fs::File::open("/dev/null").unwrap().into_raw_fd();
        unsafe { libc::close(last) };
        set_soft_limit(libc::RLIMIT_NOFILE, last as u64);
        assert!(std::fs::File::open("/dev/null").is_err());
        // A poll of several needs a descriptor for the length of the call.
        let fds = [one.as_raw_fd(), other.as_raw_fd()];
        let polls = gort::spawn(move || {
            let mut entries = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            let ready = unsafe { libc::poll(entries.as_mut_ptr(), 2, -1) };
            (ready, entries[1].revents)
        });
        thread::sleep(Duration::from_millis(20));
        peer.write_all(b"x").unwrap();
        assert_eq!(polls.join().unwrap(), (1, libc::POLLIN));
        // There can be no duplicate for the call that waits, so it fails.
        let fd = one.into_raw_fd();
        let waiting = || gort::runtime::stats().goroutines.waiting;
        let before = waiting();
        let reads = gort::spawn(move || {
            let read = unsafe { libc::read(fd, [0u8; 1].as_mut_ptr().cast(), 1) };
            (read, std::io::Error::last_os_error().raw_os_error())
        });
        until("it waits", || waiting() > before);
        assert_eq!(unsafe { libc::close(fd) }, 0);
        assert_eq!(reads.join().unwrap(), (-1, Some(libc::EBADF)));
        assert!(two.write_all(b"x").is_err(), "nobody has the other end");
    });
}
