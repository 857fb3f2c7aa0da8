//! Sockets: receiving, sending, accepting and connecting.
//!
//! MSG_DONTWAIT makes an attempt that does not block. There is no such flag for `accept`: it is called in a
//! marked section once the listener is ready, so that it waits as on a thread if another process took the
//! connection. `connect` of an internet socket sets O_NONBLOCK for the length of one system call, with
//! preemption off: only a thread that uses the same socket, which is not connected yet, could see it.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};

use super::real::define;
use super::streams::{Rest, deadline_of, is_nonblocking, run, run_read, when_ready};
use crate::netpoll::Direction;
use crate::sched::block::marked_call::blocking;
use crate::sched::run::runtime_section;
use crate::sched::types::g::G;
use crate::sys::fd;
use crate::sys::syscall::syscall6;
use crate::transparent::descriptor::{
    Mode, is_internet, is_new, is_ready, message_passed, messages_passed, socket_option, wait_for,
};
use crate::transparent::who::caller::{Outcome, of_libc, outcome};

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

/// The flags of a call that is made in that mode.
fn flags_for(flags: c_int, mode: Mode) -> c_int {
    if mode == Mode::Block { flags } else { flags | libc::MSG_DONTWAIT }
}

fn receive(
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
        return when_ready(fd, Direction::Read, |fd| call(fd, flags));
    }
    let call = |fd, mode| call(fd, flags_for(flags, mode));
    if flags == 0 { run_read(fd, length, call) } else { run(fd, Direction::Read, call) }
}

fn send_to(
    fd: c_int,
    (buffer, length): (*const c_void, usize),
    flags: c_int,
    (address, size): (*const c_void, libc::socklen_t),
) -> Outcome<isize> {
    let call = |fd, done: usize, flags| {
        let rest = [buffer as usize + done, length - done, 0, address as usize, size as usize];
        transfer(libc::SYS_sendto, fd, rest, flags)
    };
    if never_waits(flags) {
        return call(fd, 0, flags);
    }
    if flags & libc::MSG_FASTOPEN != 0 {
        return blocking(|| call(fd, 0, flags));
    }
    // A call on a stream returns before everything is sent only if it fails.
    let done = Cell::new(0);
    let result = run(fd, Direction::Write, |fd, mode| {
        loop {
            let sent = call(fd, done.get(), flags_for(flags, mode));
            done.set(done.get() + unless_connecting(sent)? as usize);
            if done.get() >= length || is_nonblocking(fd) {
                return Ok(done.get() as isize);
            }
        }
    });
    partial(result, done.get() as isize)
}

/// The first message may open a connection (TCP_FASTOPEN_CONNECT): it is not sent before that is open.
fn unless_connecting(sent: Outcome<isize>) -> Outcome<isize> {
    sent.map_err(|error| if error == libc::EINPROGRESS { libc::EAGAIN } else { error })
}

/// The result of a call that has sent `done` bytes.
fn partial(result: Outcome<isize>, done: isize) -> Outcome<isize> {
    if result.is_err() && done > 0 { Ok(done) } else { result }
}

fn receive_message(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the message.
    let call = |fd: c_int, flags: c_int| unsafe {
        outcome(syscall6(libc::SYS_recvmsg, fd as usize, message as usize, flags as usize, 0, 0, 0))
    };
    if never_waits(flags) {
        return call(fd, flags);
    }
    if flags & libc::MSG_WAITALL != 0 {
        return when_ready(fd, Direction::Read, |fd| call(fd, flags));
    }
    run(fd, Direction::Read, |fd, mode| call(fd, flags_for(flags, mode)))
}

fn send_message(fd: c_int, message: *const libc::msghdr, flags: c_int) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the message.
    let call = |fd: c_int, message: *const libc::msghdr, flags: c_int| unsafe {
        outcome(syscall6(libc::SYS_sendmsg, fd as usize, message as usize, flags as usize, 0, 0, 0))
    };
    if never_waits(flags) {
        return call(fd, message, flags);
    }
    if flags & libc::MSG_FASTOPEN != 0 {
        return blocking(|| call(fd, message, flags));
    }
    // SAFETY: as above. Without control data, it is what is left to send after the first part.
    let mut left = unsafe { message.as_ref() }.copied().ok_or(libc::EFAULT)?;
    let mut rest = Rest::new((left.msg_iov, left.msg_iovlen));
    let done = Cell::new(0);
    let result = run(fd, Direction::Write, |fd, mode| {
        loop {
            let message = if done.get() == 0 { message } else { &raw const left };
            let sent = call(fd, message, flags_for(flags, mode));
            let sent = unless_connecting(sent)?;
            done.set(done.get() + sent);
            if rest.advance(sent as usize) || is_nonblocking(fd) {
                return Ok(done.get());
            }
            let (buffers, count) = rest.buffers();
            (left.msg_iov, left.msg_iovlen) = (buffers.cast_mut(), count);
            (left.msg_control, left.msg_controllen) = (std::ptr::null_mut(), 0);
        }
    });
    partial(result, done.get())
}

/// `call`, for several messages, in a marked section once one of them would not wait.
fn several(
    fd: c_int,
    direction: Direction,
    (count, flags): (c_uint, c_int),
    mut call: impl FnMut(c_int) -> Outcome<isize>,
) -> Outcome<isize> {
    if count == 0 || never_waits(flags) { call(fd) } else { when_ready(fd, direction, call) }
}

fn accept_one(
    fd: c_int,
    address: *mut libc::sockaddr,
    size: *mut libc::socklen_t,
    flags: c_int,
) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the arguments.
    let call = |fd: c_int| unsafe {
        outcome(syscall6(
            libc::SYS_accept4,
            fd as usize,
            address as usize,
            size as usize,
            flags as usize,
            0,
            0,
        ))
    };
    when_ready(fd, Direction::Read, call)
}

fn connect_to(
    g: &'static G,
    fd: c_int,
    address: *const libc::sockaddr,
    size: libc::socklen_t,
) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the arguments.
    let call = |fd: c_int| unsafe {
        outcome(syscall6(libc::SYS_connect, fd as usize, address as usize, size as usize, 0, 0, 0))
    };
    if is_nonblocking(fd) {
        return call(fd);
    }
    if !is_internet_stream(fd) {
        return blocking(|| call(fd));
    }
    // SAFETY: used for the calls only; if the number is closed, they fail.
    let number = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    let begun = runtime_section::on_own_m(g, |_| {
        let begun = fd::set_nonblocking_without_errno(number, true).then(|| call(fd));
        if begun.is_some() {
            fd::set_nonblocking_without_errno(number, false);
        }
        begun
    });
    match begun {
        // A sandbox does not let us.
        None => return blocking(|| call(fd)),
        // EALREADY: an earlier call was given up, and its connection is still being made.
        Some(Err(libc::EINPROGRESS | libc::EALREADY)) => {}
        Some(result) => return result,
    }
    let deadline = deadline_of(fd, Direction::Write);
    let result = wait_for(fd, Direction::Write, deadline, |fd, mode| {
        // The second call tells how the first one ended, and the socket knows that it was asked.
        if mode == Mode::Block || is_ready(fd, Direction::Write) {
            blocking(|| call(fd))
        } else {
            Err(libc::EAGAIN)
        }
    });
    match result {
        // With a thread, a timeout leaves the connection being made, too.
        Err(libc::EAGAIN) => Err(libc::EINPROGRESS),
        result => result,
    }
}

fn is_internet_stream(fd: c_int) -> bool {
    is_internet(fd) && socket_option(fd, libc::SO_TYPE) == libc::SOCK_STREAM
}

define! {
    fn recv(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize,
        |_g| receive(fd, (buffer, length), flags, (std::ptr::null_mut(), std::ptr::null_mut()));
    fn recvfrom(
        fd: c_int,
        buffer: *mut c_void,
        length: usize,
        flags: c_int,
        address: *mut libc::sockaddr,
        size: *mut libc::socklen_t,
    ) -> isize, |_g| receive(fd, (buffer, length), flags, (address.cast(), size.cast()));
    // What C code calls that was compiled with _FORTIFY_SOURCE. A buffer that is too small is libc's affair.
    fn __recv_chk(fd: c_int, buffer: *mut c_void, length: usize, room: usize, flags: c_int) -> isize,
        |_g| if length > room {
            // SAFETY: the caller vouches for the arguments.
            of_libc(unsafe { (real::__recv_chk.get())(fd, buffer, length, room, flags) })
        } else {
            receive(fd, (buffer, length), flags, (std::ptr::null_mut(), std::ptr::null_mut()))
        };
    fn __recvfrom_chk(
        fd: c_int,
        buffer: *mut c_void,
        length: usize,
        room: usize,
        flags: c_int,
        address: *mut libc::sockaddr,
        size: *mut libc::socklen_t,
    ) -> isize, |_g| if length > room {
        // SAFETY: the caller vouches for the arguments.
        of_libc(unsafe { (real::__recvfrom_chk.get())(fd, buffer, length, room, flags, address, size) })
    } else {
        receive(fd, (buffer, length), flags, (address.cast(), size.cast()))
    };
    fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize,
        |_g| receive_message(fd, message, flags),
        // SAFETY: the kernel has just filled the message in.
        after |read| if read >= 0 { unsafe { message_passed(message) } };
    fn recvmmsg(
        fd: c_int,
        messages: *mut libc::mmsghdr,
        count: c_uint,
        flags: c_int,
        timeout: *mut libc::timespec,
    ) -> c_int, |_g| several(fd, Direction::Read, (count, flags), |fd| {
        // SAFETY: the caller vouches for the arguments.
        of_libc(unsafe { (real::recvmmsg.get())(fd, messages, count, flags, timeout) } as isize)
    // SAFETY: the kernel has filled so many in.
    }), after |read| unsafe { messages_passed(messages, read) };

    fn send(fd: c_int, buffer: *const c_void, length: usize, flags: c_int) -> isize,
        |_g| send_to(fd, (buffer, length), flags, (std::ptr::null(), 0));
    fn sendto(
        fd: c_int,
        buffer: *const c_void,
        length: usize,
        flags: c_int,
        address: *const libc::sockaddr,
        size: libc::socklen_t,
    ) -> isize, |_g| send_to(fd, (buffer, length), flags, (address.cast(), size));
    fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize,
        |_g| send_message(fd, message, flags),
        // SAFETY: the kernel has just read the message.
        after |sent| if sent >= 0 { unsafe { message_passed(message) } };
    fn sendmmsg(fd: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int) -> c_int,
        |_g| several(fd, Direction::Write, (count, flags), |fd| {
            // SAFETY: the caller vouches for the arguments.
            of_libc(unsafe { (real::sendmmsg.get())(fd, messages, count, flags) } as isize)
        // SAFETY: the kernel has read so many.
        }), after |sent| unsafe { messages_passed(messages, sent) };

    fn accept(fd: c_int, address: *mut libc::sockaddr, size: *mut libc::socklen_t) -> c_int,
        |_g| accept_one(fd, address, size, 0), after |made| is_new(made);
    fn accept4(fd: c_int, address: *mut libc::sockaddr, size: *mut libc::socklen_t, flags: c_int) -> c_int,
        |_g| accept_one(fd, address, size, flags), after |made| is_new(made);
    fn connect(fd: c_int, address: *const libc::sockaddr, size: libc::socklen_t) -> c_int,
        |g| connect_to(g, fd, address, size);
}
