//! What is kept of a descriptor between two waits is forgotten when something changes it.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use super::common::{alone, until};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

fn waiting() -> usize {
    gort::runtime::stats().goroutines.waiting
}

/// Lets a goroutine wait for `stream`, so that everything is known of it, and the last read has emptied it.
fn waited_for<S: Read + Send + 'static>(mut stream: S, peer: &mut impl Write) -> S {
    for _ in 0..2 {
        let before = waiting();
        let waits = gort::spawn(move || {
            assert_eq!(stream.read(&mut [0; 10]).unwrap(), 1);
            stream
        });
        until("it waits", || waiting() > before);
        peer.write_all(b"x").unwrap();
        stream = waits.join().unwrap();
    }
    stream
}

/// Sends two bytes with a descriptor.
pub(crate) fn send_with_descriptor(socket: &UnixStream, passed: i32) {
    let mut bytes = *b"ab";
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 2 };
    let mut control = [0u64; 8];
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        ((*header).cmsg_level, (*header).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(passed);
        assert_eq!(libc::sendmsg(socket.as_raw_fd(), &raw const message, 0), 2);
    }
}

#[test]
fn a_read_that_ends_at_a_passed_descriptor_leaves_data() {
    if !alone("trust::a_read_that_ends_at_a_passed_descriptor_leaves_data") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let (one, mut two) = UnixStream::pair().unwrap();
        let mut one = waited_for(one, &mut two);
        send_with_descriptor(&two, two.as_raw_fd());
        two.write_all(b"cd").unwrap();
        let (send, receive) = mpsc::channel();
        gort::spawn(move || {
            for _ in 0..2 {
                let mut buffer = [0; 10];
                let n = one.read(&mut buffer).unwrap();
                send.send(buffer[..n].to_vec()).unwrap();
            }
        });
        assert_eq!(receive.recv().unwrap(), b"ab");
        let next = receive.recv_timeout(super::common::patience());
        assert_eq!(next.unwrap(), b"cd");
    });
}

#[test]
fn a_drained_socket_may_become_one_of_gorts_and_stds_again() {
    if !alone("trust::a_drained_socket_may_become_one_of_gorts_and_stds_again") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let (one, mut two) = pair();
        let mut one = waited_for(one, &mut two);
        for _ in 0..3 {
            let gorts = waited_for(gort::net::TcpStream::from(one), &mut two);
            one = waited_for(TcpStream::from(gorts), &mut two);
        }
    });
}

/// Sets O_NONBLOCK through one number of a socket that another one was waited for with.
fn is_seen_through_another_number(duplicate: impl FnOnce(i32) -> i32) {
    let (one, mut two) = pair();
    let mut one = waited_for(one, &mut two);
    let copy = unsafe { TcpStream::from_raw_fd(duplicate(one.as_raw_fd())) };
    copy.set_nonblocking(true).unwrap();
    assert_eq!(one.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
    copy.set_nonblocking(false).unwrap();
    copy.set_read_timeout(Some(std::time::Duration::from_millis(10))).unwrap();
    assert_eq!(one.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// A number that is free.
fn free_number() -> i32 {
    let file = std::fs::File::open("/dev/null").unwrap();
    file.as_raw_fd()
}

#[test]
fn flags_that_are_set_through_a_number_of_dup2_are_seen() {
    if !alone("trust::flags_that_are_set_through_a_number_of_dup2_are_seen") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| is_seen_through_another_number(|fd| unsafe { libc::dup2(fd, free_number()) }));
}

#[test]
fn flags_that_are_set_through_a_number_of_dup3_are_seen() {
    if !alone("trust::flags_that_are_set_through_a_number_of_dup3_are_seen") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        is_seen_through_another_number(|fd| unsafe {
            libc::syscall(libc::SYS_dup3, fd, free_number(), libc::O_CLOEXEC) as i32
        });
    });
}

#[test]
fn flags_that_are_set_through_a_number_of_before_the_start_are_seen() {
    if !alone("trust::flags_that_are_set_through_a_number_of_before_the_start_are_seen") {
        return;
    }
    let (one, mut two) = pair();
    let copy = one.try_clone().unwrap();
    let _watchdog = super::enable();
    gort::run(move || {
        let mut one = waited_for(one, &mut two);
        copy.set_nonblocking(true).unwrap();
        assert_eq!(one.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn what_the_function_syscall_changes_is_seen() {
    if !alone("trust::what_the_function_syscall_changes_is_seen") {
        return;
    }
    let _watchdog = super::enable();
    let call = |number, a: i32, b: usize, c: usize| unsafe { libc::syscall(number, a, b, c) };
    gort::run(move || {
        let would_block = |mut stream: &TcpStream| {
            assert_eq!(stream.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
        };
        let (one, mut two) = pair();
        let one = waited_for(one, &mut two);
        let flags = libc::O_NONBLOCK as usize;
        assert_eq!(call(libc::SYS_fcntl, one.as_raw_fd(), libc::F_SETFL as usize, flags), 0);
        would_block(&one);
        one.set_nonblocking(false).unwrap();
        let mut one = waited_for(one, &mut two);
        let mut yes = 1i32;
        assert_eq!(call(libc::SYS_ioctl, one.as_raw_fd(), libc::FIONBIO as usize, &raw mut yes as usize), 0);
        would_block(&one);
        one.set_nonblocking(false).unwrap();
        one = waited_for(one, &mut two);
        let time = libc::timeval { tv_sec: 0, tv_usec: 1000 };
        let set = unsafe {
            let level = libc::SOL_SOCKET;
            let name = libc::SO_RCVTIMEO;
            let size = size_of::<libc::timeval>();
            libc::syscall(libc::SYS_setsockopt, one.as_raw_fd(), level, name, &raw const time, size)
        };
        assert_eq!(set, 0);
        would_block(&one);
        one.set_read_timeout(None).unwrap();
        one = waited_for(one, &mut two);
        // The number gets another open file, which is O_NONBLOCK.
        let number = one.into_raw_fd();
        assert_eq!(call(libc::SYS_close_range, number, number as usize, 0), 0);
        let kind = (libc::SOCK_STREAM | libc::SOCK_NONBLOCK) as usize;
        let mut made = [-1i32; 2];
        let to = made.as_mut_ptr() as usize;
        unsafe { libc::syscall(libc::SYS_socketpair, libc::AF_UNIX, kind, 0, to) };
        let made = made.map(|fd| unsafe { UnixStream::from_raw_fd(fd) });
        assert!(made.iter().any(|one| one.as_raw_fd() == number));
        for mut one in &made {
            assert_eq!(one.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    });
}
