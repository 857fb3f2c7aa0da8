//! Reading and writing: an attempt that does not block, and a wait if it would.
//!
//! O_NONBLOCK of the descriptor is neither needed nor changed. Sockets take MSG_DONTWAIT, pipes and some
//! devices RWF_NOWAIT. For other descriptors that epoll can watch, the attempt asks whether they are ready and
//! then makes the real call in a marked section: if another process was faster, the call waits there, as it
//! would on a thread. Regular files get the real call in a marked section at once.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use super::caller::{Outcome, may_stop, of_libc, outcome};
use super::descriptor::{Kind, wait_for};
use super::real::define;
use crate::netpoll::Direction;
use crate::sched::block::marked_call::blocking;
use crate::sched::park::clock;
use crate::sched::types::g::G;
use crate::sys::fd;
use crate::sys::syscall::syscall6;
use crate::timer::NEVER;

/// The most buffers of one call (IOV_MAX).
const MOST_BUFFERS: usize = 1024;

/// Makes a call on a descriptor that is not a regular file: `attempt` does not block, `real` is libc's
/// function, for a caller that must not stop.
pub(super) fn run(
    g: &'static G,
    number: c_int,
    direction: Direction,
    mut attempt: impl FnMut(c_int) -> Outcome<isize>,
    real: impl FnOnce() -> Outcome<isize>,
) -> Outcome<isize> {
    match attempt(number) {
        Err(libc::EAGAIN) => {}
        result => return result,
    }
    wait_and_repeat(g, number, direction, attempt, real)
}

#[inline(never)]
fn wait_and_repeat(
    g: &'static G,
    number: c_int,
    direction: Direction,
    attempt: impl FnMut(c_int) -> Outcome<isize>,
    real: impl FnOnce() -> Outcome<isize>,
) -> Outcome<isize> {
    if is_nonblocking(number) {
        return Err(libc::EAGAIN);
    }
    if !may_stop(g) {
        return real();
    }
    wait_for(number, direction, deadline_of(number, direction), attempt)
}

/// Whether the user wants EAGAIN instead of waits.
pub(super) fn is_nonblocking(number: c_int) -> bool {
    // SAFETY: no memory is passed.
    let flags = unsafe { syscall6(libc::SYS_fcntl, number as usize, libc::F_GETFL as usize, 0, 0, 0, 0) };
    flags >= 0 && flags as c_int & libc::O_NONBLOCK != 0
}

/// When a call that begins now times out, by SO_RCVTIMEO or SO_SNDTIMEO.
pub(super) fn deadline_of(number: c_int, direction: Direction) -> u64 {
    let name = match direction {
        Direction::Read => libc::SO_RCVTIMEO,
        Direction::Write => libc::SO_SNDTIMEO,
    };
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut size = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: the kernel writes a timeval of that size. Other descriptors than sockets have no timeout.
    let result = unsafe {
        let (time, size) = (&raw mut time as usize, &raw mut size as usize);
        syscall6(
            libc::SYS_getsockopt,
            number as usize,
            libc::SOL_SOCKET as usize,
            name as usize,
            time,
            size,
            0,
        )
    };
    let nanos = (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_usec as u64 * 1000);
    if result < 0 || nanos == 0 { NEVER } else { clock::nanos().saturating_add(nanos) }
}

/// Whether a call in that direction would return at once.
pub(super) fn is_ready(number: c_int, direction: Direction) -> bool {
    fd::wait_until_ready(number, direction == Direction::Write, std::time::Duration::ZERO)
}

/// `call`, which may block, in a marked section, once the descriptor is ready.
pub(super) fn when_ready(
    g: &'static G,
    number: c_int,
    direction: Direction,
    mut call: impl FnMut(c_int) -> Outcome<isize>,
) -> Outcome<isize> {
    let mut attempted = |number: c_int| {
        if is_ready(number, direction) { blocking(|| call(number)) } else { Err(libc::EAGAIN) }
    };
    match attempted(number) {
        Err(libc::EAGAIN) => {}
        result => return result,
    }
    if is_nonblocking(number) {
        return call(number);
    }
    if !may_stop(g) {
        return call(number);
    }
    wait_for(number, direction, deadline_of(number, direction), attempted)
}

/// The buffers of a call.
pub(super) type Buffers = (*const libc::iovec, usize);

/// What reading and writing differ in.
struct Io {
    direction: Direction,
    /// The system calls with MSG_DONTWAIT (as `sendmsg`), with RWF_NOWAIT, and plain.
    message: libc::c_long,
    nowait: libc::c_long,
    plain: libc::c_long,
}

const READ: Io = Io {
    direction: Direction::Read,
    message: libc::SYS_recvmsg,
    nowait: libc::SYS_preadv2,
    plain: libc::SYS_readv,
};
const WRITE: Io = Io {
    direction: Direction::Write,
    message: libc::SYS_sendmsg,
    nowait: libc::SYS_pwritev2,
    plain: libc::SYS_writev,
};

impl Io {
    /// One attempt that does not block.
    fn attempt(&self, number: c_int, (buffers, count): Buffers) -> Outcome<isize> {
        let mut kind = Kind::of(number);
        loop {
            let result = match kind {
                Kind::Socket => self.by_message(number, (buffers, count)),
                Kind::Stream => self.without_waiting(number, (buffers, count)),
                Kind::Pollable if is_ready(number, self.direction) => {
                    blocking(|| self.plainly(number, (buffers, count)))
                }
                Kind::Pollable => Err(libc::EAGAIN),
                Kind::File | Kind::Unknown => blocking(|| self.plainly(number, (buffers, count))),
            };
            match (kind, result) {
                // The number is of another open file by now.
                (Kind::Socket, Err(libc::ENOTSOCK)) => kind = Kind::ask(number),
                (Kind::Stream, Err(libc::EOPNOTSUPP)) => {
                    kind = match Kind::ask(number) {
                        // A pipe that does not take the flag, with an old kernel.
                        Kind::Stream => Kind::Pollable,
                        other => other,
                    }
                }
                (_, result) => return result,
            }
        }
    }

    #[inline]
    fn by_message(&self, number: c_int, (buffers, count): Buffers) -> Outcome<isize> {
        // SAFETY: zeros are a message without name and control data; the caller of libc's function vouches
        // for the buffers.
        unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = buffers.cast_mut();
            message.msg_iovlen = count;
            let message = &raw mut message as usize;
            outcome(syscall6(self.message, number as usize, message, libc::MSG_DONTWAIT as usize, 0, 0, 0))
        }
    }

    fn without_waiting(&self, number: c_int, (buffers, count): Buffers) -> Outcome<isize> {
        let at_position = usize::MAX;
        // SAFETY: the caller of libc's function vouches for the buffers.
        outcome(unsafe {
            let (number, buffers) = (number as usize, buffers as usize);
            syscall6(self.nowait, number, buffers, count, at_position, at_position, libc::RWF_NOWAIT as usize)
        })
    }

    fn plainly(&self, number: c_int, (buffers, count): Buffers) -> Outcome<isize> {
        // SAFETY: the caller of libc's function vouches for the buffers.
        outcome(unsafe { syscall6(self.plain, number as usize, buffers as usize, count, 0, 0, 0) })
    }

    fn run(&self, g: &'static G, number: c_int, buffers: Buffers) -> Outcome<isize> {
        if buffers.1 > MOST_BUFFERS {
            return Err(libc::EINVAL);
        }
        match self.direction {
            Direction::Read => {
                let attempt = |number| self.attempt(number, buffers);
                run(g, number, self.direction, attempt, || self.plainly(number, buffers))
            }
            Direction::Write => self.write_all(g, number, buffers),
        }
    }

    /// A call that writes returns before everything is written only if it fails.
    fn write_all(&self, g: &'static G, number: c_int, (buffers, count): Buffers) -> Outcome<isize> {
        let mut rest = Rest::new((buffers, count));
        let first = self.attempt(number, (buffers, count));
        match first {
            Err(libc::EAGAIN) => {}
            Ok(written) if !rest.advance(written as usize) => {}
            result => return result,
        }
        let done = std::cell::Cell::new(first.unwrap_or(0));
        let attempt = |number: c_int| {
            loop {
                let written = self.attempt(number, rest.buffers())?;
                done.set(done.get() + written);
                if rest.advance(written as usize) {
                    return Ok(done.get());
                }
            }
        };
        let result = wait_and_repeat(g, number, self.direction, attempt, || Err(libc::EAGAIN));
        match result {
            Err(_) if done.get() > 0 => Ok(done.get()),
            Err(libc::EAGAIN) if !is_nonblocking(number) && !may_stop(g) => {
                self.plainly(number, (buffers, count))
            }
            result => result,
        }
    }
}

/// What is left of the buffers of a call that writes.
pub(super) struct Rest {
    buffers: Buffers,
    /// The first buffer, from which something was written: what is left of it.
    first: Option<libc::iovec>,
}

impl Rest {
    pub(super) fn new(buffers: Buffers) -> Rest {
        Rest { buffers, first: None }
    }

    /// The next ones to be written: what is left of one of them, or whole ones.
    pub(super) fn buffers(&self) -> Buffers {
        self.first.as_ref().map_or(self.buffers, |first| (std::ptr::from_ref(first), 1))
    }

    /// Counts what was written. Returns whether that was the end.
    pub(super) fn advance(&mut self, mut written: usize) -> bool {
        loop {
            if self.buffers.1 == 0 {
                return true;
            }
            // SAFETY: within the array that the caller of libc's function passed.
            let current = self.first.unwrap_or_else(|| unsafe { *self.buffers.0 });
            if written < current.iov_len {
                if written > 0 {
                    let iov_base = current.iov_base.wrapping_byte_add(written);
                    self.first = Some(libc::iovec { iov_base, iov_len: current.iov_len - written });
                }
                return false;
            }
            written -= current.iov_len;
            self.first = None;
            self.buffers = (self.buffers.0.wrapping_add(1), self.buffers.1 - 1);
        }
    }
}

fn one_buffer(buffer: *const c_void, count: usize) -> libc::iovec {
    libc::iovec { iov_base: buffer.cast_mut(), iov_len: count }
}

/// `read` and `write` on a number that is known to be a socket are `recv` and `send` without flags.
fn on_one(io: &Io, g: &'static G, number: c_int, buffer: *const c_void, count: usize) -> Outcome<isize> {
    let buffer = MaybeUninit::new(one_buffer(buffer, count));
    io.run(g, number, (buffer.as_ptr(), 1))
}

/// A call with a position is for a file: in a marked section.
macro_rules! marked {
    ($name:ident($($argument:expr),*)) => {
        // SAFETY: the caller vouches for the arguments.
        of_libc(blocking(|| unsafe { (real::$name.get())($($argument),*) }) as isize)
    };
}

define! {
    fn read(number: c_int, buffer: *mut c_void, count: usize) -> isize,
        |g| on_one(&READ, g, number, buffer, count);
    fn write(number: c_int, buffer: *const c_void, count: usize) -> isize,
        |g| on_one(&WRITE, g, number, buffer, count);
    fn readv(number: c_int, buffers: *const libc::iovec, count: c_int) -> isize,
        |g| READ.run(g, number, (buffers, count as usize));
    fn writev(number: c_int, buffers: *const libc::iovec, count: c_int) -> isize,
        |g| WRITE.run(g, number, (buffers, count as usize));

    fn pread(number: c_int, buffer: *mut c_void, count: usize, at: libc::off_t) -> isize,
        |_g| marked!(pread(number, buffer, count, at));
    fn pread64(number: c_int, buffer: *mut c_void, count: usize, at: libc::off64_t) -> isize,
        |_g| marked!(pread64(number, buffer, count, at));
    fn pwrite(number: c_int, buffer: *const c_void, count: usize, at: libc::off_t) -> isize,
        |_g| marked!(pwrite(number, buffer, count, at));
    fn pwrite64(number: c_int, buffer: *const c_void, count: usize, at: libc::off64_t) -> isize,
        |_g| marked!(pwrite64(number, buffer, count, at));

    fn splice(
        from: c_int,
        from_at: *mut libc::loff_t,
        to: c_int,
        to_at: *mut libc::loff_t,
        count: usize,
        flags: libc::c_uint,
    ) -> isize, |g| {
        let call = || marked!(splice(from, from_at, to, to_at, count, flags));
        transfer(g, (from, to), flags & libc::SPLICE_F_NONBLOCK == 0, call)
    };
    fn sendfile(to: c_int, from: c_int, at: *mut libc::off_t, count: usize) -> isize,
        |g| transfer(g, (from, to), true, || marked!(sendfile(to, from, at, count)));
    fn sendfile64(to: c_int, from: c_int, at: *mut libc::off64_t, count: usize) -> isize,
        |g| transfer(g, (from, to), true, || marked!(sendfile64(to, from, at, count)));
    fn copy_file_range(
        from: c_int,
        from_at: *mut libc::off64_t,
        to: c_int,
        to_at: *mut libc::off64_t,
        count: usize,
        flags: libc::c_uint,
    ) -> isize, |_g| marked!(copy_file_range(from, from_at, to, to_at, count, flags));
}

/// A call that moves data between two descriptors, in a marked section, once both are ready.
fn transfer(
    g: &'static G,
    (from, to): (c_int, c_int),
    waits: bool,
    call: impl Fn() -> Outcome<isize>,
) -> Outcome<isize> {
    let until_ready = |number, direction| -> Outcome<()> {
        if is_ready(number, direction) || is_nonblocking(number) || !may_stop(g) {
            return Ok(());
        }
        let attempt = |number| if is_ready(number, direction) { Ok(()) } else { Err(libc::EAGAIN) };
        wait_for(number, direction, deadline_of(number, direction), attempt)
    };
    if waits {
        until_ready(from, Direction::Read)?;
        until_ready(to, Direction::Write)?;
    }
    call()
}
