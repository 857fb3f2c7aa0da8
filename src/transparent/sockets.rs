//! Sockets: receiving, sending, accepting and connecting.
//!
//! MSG_DONTWAIT makes an attempt that does not block. There is no such flag for `accept`: it is called in a
//! marked section once the listener is ready, so that it waits as on a thread if another process took the
//! connection. `connect` of an internet socket sets O_NONBLOCK for the length of one system call, with
//! preemption off: only a thread that uses the same socket, which is not connected yet, could see it.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;

use super::caller::{Outcome, may_stop, of_libc, outcome};
use super::descriptor::wait_for;
use super::real::define;
use super::streams::{Rest, deadline_of, is_nonblocking, is_ready, run, when_ready};
use crate::netpoll::Direction;
use crate::sched::block::marked_call::blocking;
use crate::sched::run::runtime_section;
use crate::sched::types::g::G;
use crate::sys::fd;
use crate::sys::syscall::syscall6;

/// `SYS_recvfrom` or `SYS_sendto`.
fn transfer(number: libc::c_long, fd: c_int, rest: [usize; 5], flags: c_int) -> Outcome<isize> {
    let [buffer, length, _, address, size] = rest;
    // SAFETY: the caller of libc's function vouches for the arguments.
    outcome(unsafe { syscall6(number, fd as usize, buffer, length, flags as usize, address, size) })
}

/// Whether the call needs no help: it does not block.
fn never_waits(flags: c_int) -> bool {
    flags & (libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE | libc::MSG_OOB) != 0
}

fn receive(
    g: &'static G,
    fd: c_int,
    (buffer, length): (*mut c_void, usize),
    flags: c_int,
    (address, size): (*mut c_void, *mut c_void),
) -> Outcome<isize> {
    let rest = [buffer as usize, length, 0, address as usize, size as usize];
    let call = |fd, flags| transfer(libc::SYS_recvfrom, fd, rest, flags);
    if never_waits(flags) {
        return call(fd, flags);
    }
    if flags & libc::MSG_WAITALL != 0 {
        return when_ready(g, fd, Direction::Read, |fd| call(fd, flags));
    }
    run(g, fd, Direction::Read, |fd| call(fd, flags | libc::MSG_DONTWAIT), || call(fd, flags))
}

fn send_to(
    g: &'static G,
    fd: c_int,
    (buffer, length): (*const c_void, usize),
    flags: c_int,
    (address, size): (*const c_void, libc::socklen_t),
) -> Outcome<isize> {
    let mut done = 0;
    let call = |fd, done: usize, flags| {
        let rest = [buffer as usize + done, length - done, 0, address as usize, size as usize];
        transfer(libc::SYS_sendto, fd, rest, flags)
    };
    if never_waits(flags) {
        return call(fd, 0, flags);
    }
    // A call on a stream returns before everything is sent only if it fails.
    let attempt = |fd| {
        loop {
            done += call(fd, done, flags | libc::MSG_DONTWAIT)? as usize;
            if done >= length || is_nonblocking(fd) {
                return Ok(done as isize);
            }
        }
    };
    let result = run(g, fd, Direction::Write, attempt, || call(fd, 0, flags));
    partial(result, done)
}

/// The result of a call that has sent `done` bytes.
fn partial(result: Outcome<isize>, done: usize) -> Outcome<isize> {
    if result.is_err() && done > 0 { Ok(done as isize) } else { result }
}

fn receive_message(g: &'static G, fd: c_int, message: *mut libc::msghdr, flags: c_int) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the message.
    let call = |fd: c_int, flags: c_int| unsafe {
        outcome(syscall6(libc::SYS_recvmsg, fd as usize, message as usize, flags as usize, 0, 0, 0))
    };
    if never_waits(flags) {
        return call(fd, flags);
    }
    if flags & libc::MSG_WAITALL != 0 {
        return when_ready(g, fd, Direction::Read, |fd| call(fd, flags));
    }
    run(g, fd, Direction::Read, |fd| call(fd, flags | libc::MSG_DONTWAIT), || call(fd, flags))
}

fn send_message(g: &'static G, fd: c_int, message: *const libc::msghdr, flags: c_int) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the message.
    let call = |fd: c_int, message: *const libc::msghdr, flags: c_int| unsafe {
        outcome(syscall6(libc::SYS_sendmsg, fd as usize, message as usize, flags as usize, 0, 0, 0))
    };
    if never_waits(flags) {
        return call(fd, message, flags);
    }
    // SAFETY: as above. Without buffers and control data, it is what is left to send after the first part.
    let mut left = unsafe { message.as_ref() }.copied().ok_or(libc::EFAULT)?;
    let mut rest = Rest::new((left.msg_iov, left.msg_iovlen));
    let mut done = 0;
    let attempt = |fd| {
        loop {
            let message = if done == 0 { message } else { &raw const left };
            let sent = call(fd, message, flags | libc::MSG_DONTWAIT)?;
            done += sent as usize;
            if rest.advance(sent as usize) || is_nonblocking(fd) {
                return Ok(done as isize);
            }
            let (buffers, count) = rest.buffers();
            (left.msg_iov, left.msg_iovlen) = (buffers.cast_mut(), count);
            (left.msg_control, left.msg_controllen) = (std::ptr::null_mut(), 0);
        }
    };
    let result = run(g, fd, Direction::Write, attempt, || call(fd, message, flags));
    partial(result, done)
}

fn connect_to(
    g: &'static G,
    fd: c_int,
    address: *const libc::sockaddr,
    size: libc::socklen_t,
) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the arguments.
    let call = || unsafe {
        outcome(syscall6(libc::SYS_connect, fd as usize, address as usize, size as usize, 0, 0, 0))
    };
    if is_nonblocking(fd) {
        return call();
    }
    if !is_internet_stream(fd) || !may_stop(g) {
        return blocking(call);
    }
    // SAFETY: used for the calls only; if the number is closed, they fail.
    let number = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    let begun = runtime_section::on_own_m(g, |_| {
        let changed = fd::set_nonblocking_without_errno(number, true);
        let begun = call();
        if changed {
            fd::set_nonblocking_without_errno(number, false);
        }
        begun
    });
    match begun {
        // EALREADY: an earlier call was given up, and its connection is still being made.
        Err(libc::EINPROGRESS | libc::EALREADY) => {}
        result => return result,
    }
    let attempt = |fd| if is_ready(fd, Direction::Write) { Ok(()) } else { Err(libc::EAGAIN) };
    match wait_for(fd, Direction::Write, deadline_of(fd, Direction::Write), attempt) {
        Ok(()) => match socket_option(fd, libc::SO_ERROR) {
            0 => Ok(0),
            error => Err(error),
        },
        // With a thread, a timeout leaves the connection being made, too.
        Err(libc::EAGAIN) => Err(libc::EINPROGRESS),
        Err(error) => Err(error),
    }
}

fn is_internet_stream(fd: c_int) -> bool {
    let domain = socket_option(fd, libc::SO_DOMAIN);
    (domain == libc::AF_INET || domain == libc::AF_INET6)
        && socket_option(fd, libc::SO_TYPE) == libc::SOCK_STREAM
}

/// An option of a socket that is an integer; -1 if it has none.
fn socket_option(fd: c_int, name: c_int) -> c_int {
    let (mut value, mut size) = (MaybeUninit::<c_int>::zeroed(), size_of::<c_int>() as libc::socklen_t);
    // SAFETY: the kernel writes an int.
    unsafe {
        let (at, size) = (value.as_mut_ptr() as usize, &raw mut size as usize);
        let level = libc::SOL_SOCKET as usize;
        match syscall6(libc::SYS_getsockopt, fd as usize, level, name as usize, at, size, 0) {
            0 => value.assume_init(),
            _ => -1,
        }
    }
}

fn accept_one(
    g: &'static G,
    fd: c_int,
    address: *mut libc::sockaddr,
    size: *mut libc::socklen_t,
    flags: c_int,
) -> Outcome<isize> {
    when_ready(g, fd, Direction::Read, |fd| {
        // SAFETY: the caller of libc's function vouches for the arguments.
        outcome(unsafe {
            let (address, size) = (address as usize, size as usize);
            syscall6(libc::SYS_accept4, fd as usize, address, size, flags as usize, 0, 0)
        })
    })
}

define! {
    fn recv(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize,
        |g| receive(g, fd, (buffer, length), flags, (std::ptr::null_mut(), std::ptr::null_mut()));
    fn recvfrom(
        fd: c_int,
        buffer: *mut c_void,
        length: usize,
        flags: c_int,
        address: *mut libc::sockaddr,
        size: *mut libc::socklen_t,
    ) -> isize, |g| receive(g, fd, (buffer, length), flags, (address.cast(), size.cast()));
    fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize,
        |g| receive_message(g, fd, message, flags);
    fn recvmmsg(
        fd: c_int,
        messages: *mut libc::mmsghdr,
        count: c_uint,
        flags: c_int,
        timeout: *mut libc::timespec,
    ) -> c_int, |g| when_ready(g, fd, Direction::Read, |fd| {
        // SAFETY: the caller vouches for the arguments.
        of_libc(unsafe { (real::recvmmsg.get())(fd, messages, count, flags, timeout) } as isize)
    });

    fn send(fd: c_int, buffer: *const c_void, length: usize, flags: c_int) -> isize,
        |g| send_to(g, fd, (buffer, length), flags, (std::ptr::null(), 0));
    fn sendto(
        fd: c_int,
        buffer: *const c_void,
        length: usize,
        flags: c_int,
        address: *const libc::sockaddr,
        size: libc::socklen_t,
    ) -> isize, |g| send_to(g, fd, (buffer, length), flags, (address.cast(), size));
    fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize,
        |g| send_message(g, fd, message, flags);
    fn sendmmsg(fd: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int) -> c_int,
        |g| when_ready(g, fd, Direction::Write, |fd| {
            // SAFETY: the caller vouches for the arguments.
            of_libc(unsafe { (real::sendmmsg.get())(fd, messages, count, flags) } as isize)
        });

    fn accept(fd: c_int, address: *mut libc::sockaddr, size: *mut libc::socklen_t) -> c_int,
        |g| accept_one(g, fd, address, size, 0);
    fn accept4(fd: c_int, address: *mut libc::sockaddr, size: *mut libc::socklen_t, flags: c_int) -> c_int,
        |g| accept_one(g, fd, address, size, flags);
    fn connect(fd: c_int, address: *const libc::sockaddr, size: libc::socklen_t) -> c_int,
        |g| connect_to(g, fd, address, size);
}
