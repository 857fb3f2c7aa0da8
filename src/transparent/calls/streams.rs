//! Reading and writing: an attempt that does not block, and a wait if it would.
//!
//! O_NONBLOCK of the descriptor is neither needed nor changed. Sockets take MSG_DONTWAIT, pipes and some
//! devices RWF_NOWAIT. For other descriptors that epoll can watch, the attempt asks whether they are ready
//! and then makes the real call in a marked section: if another process was faster, the call waits there, as
//! it would on a thread. Regular files get the real call in a marked section at once.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use super::real::define;
use crate::netpoll::Direction;
use crate::sched::block::marked_call::blocking;
use crate::sched::park::clock;
use crate::sys::syscall::syscall6;
use crate::timer::NEVER;
use crate::transparent::descriptor::{
    Descriptor, Kind, Mode, if_ready, terminal_settings, wait_for, wait_limit,
};
use crate::transparent::who::caller::{Outcome, of_libc, outcome};

/// The most buffers of one call (IOV_MAX).
const MOST_BUFFERS: usize = 1024;

/// The most bytes of one call (the kernel's MAX_RW_COUNT).
const MOST_BYTES: usize = 0x7fff_f000;

/// Makes a call on a descriptor: first without blocking, then as often as the descriptor becomes ready.
#[inline]
pub(in crate::transparent) fn run(
    number: c_int,
    direction: Direction,
    mut call: impl FnMut(c_int, Mode) -> Outcome<isize>,
) -> Outcome<isize> {
    match call(number, Mode::First) {
        Err(libc::EAGAIN) => wait_and_repeat(number, direction, call),
        result => result,
    }
}

/// As [`run`], for reading up to `wanted` bytes. If the last read has emptied a stream, and there was no edge
/// since, it waits before the first attempt.
#[inline]
pub(in crate::transparent) fn run_read(
    number: c_int,
    wanted: usize,
    mut call: impl FnMut(c_int, Mode) -> Outcome<isize>,
) -> Outcome<isize> {
    let Some(descriptor) = Descriptor::existing(number) else { return run(number, Direction::Read, call) };
    // Whatever the hint says, the wait finds out whether there is something to read.
    if descriptor.is_likely_empty()
        && wanted != 0
        && let Some(deadline) = wait_limit(number, Direction::Read)
    {
        return wait_for(number, Direction::Read, deadline, |number, mode| {
            noting_short_reads(number, wanted, || call(number, mode))
        });
    }
    run(number, Direction::Read, |number, mode| noting_short_reads(number, wanted, || call(number, mode)))
}

#[inline]
fn noting_short_reads(number: c_int, wanted: usize, call: impl FnOnce() -> Outcome<isize>) -> Outcome<isize> {
    let descriptor = Descriptor::existing(number);
    let observed = descriptor.map_or(0, Descriptor::observe_reads);
    let result = call();
    if let (Some(descriptor), Ok(read @ 1..)) = (descriptor, result)
        && (read as usize) < wanted.min(MOST_BYTES)
        && observed != 0
    {
        descriptor.note_short_read(observed);
    }
    result
}

/// The rest of [`run`], after an attempt without success.
#[inline(never)]
pub(in crate::transparent) fn wait_and_repeat(
    number: c_int,
    direction: Direction,
    call: impl FnMut(c_int, Mode) -> Outcome<isize>,
) -> Outcome<isize> {
    match wait_limit(number, direction) {
        Some(deadline) => wait_for(number, direction, deadline, call),
        None => Err(libc::EAGAIN),
    }
}

/// Whether the user wants EAGAIN instead of waits.
pub(in crate::transparent) fn is_nonblocking(number: c_int) -> bool {
    // SAFETY: no memory is passed.
    let flags = unsafe { syscall6(libc::SYS_fcntl, number as usize, libc::F_GETFL as usize, 0, 0, 0, 0) };
    flags >= 0 && flags as c_int & libc::O_NONBLOCK != 0
}

/// When a call that begins now times out, by SO_RCVTIMEO or SO_SNDTIMEO.
pub(in crate::transparent) fn deadline_of(number: c_int, direction: Direction) -> u64 {
    let name = match direction {
        Direction::Read => libc::SO_RCVTIMEO,
        Direction::Write => libc::SO_SNDTIMEO,
    };
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut size = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: the kernel writes a timeval of that size. Other descriptors than sockets have no timeout.
    let result = unsafe {
        let (time, size, level) = (&raw mut time as usize, &raw mut size as usize, libc::SOL_SOCKET as usize);
        syscall6(libc::SYS_getsockopt, number as usize, level, name as usize, time, size, 0)
    };
    let nanos = (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_usec as u64 * 1000);
    if result < 0 || nanos == 0 { NEVER } else { clock::nanos().saturating_add(nanos) }
}

/// `call`, which may block, in a marked section, once the descriptor is ready.
pub(in crate::transparent) fn when_ready(
    number: c_int,
    direction: Direction,
    mut call: impl FnMut(c_int) -> Outcome<isize>,
) -> Outcome<isize> {
    run(number, direction, |number, mode| if_ready(number, direction, mode, || blocking(|| call(number))))
}

/// The buffers of a call.
pub(in crate::transparent) type Buffers = (*const libc::iovec, usize);

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

/// What a call did that was made once.
struct Once {
    bytes: isize,
    /// It was the plain call, whose result is the caller's.
    plain: bool,
}

impl Io {
    /// One call, which does not block if `mode` says so.
    fn once(&self, number: c_int, buffers: Buffers, mode: Mode) -> Outcome<Once> {
        let plain = |outcome: Outcome<isize>| Ok(Once { bytes: outcome?, plain: true });
        let short = |outcome: Outcome<isize>| Ok(Once { bytes: outcome?, plain: false });
        let plainly = || plain(self.in_marked_section(number, buffers));
        let if_ready = || if_ready(number, self.direction, mode, plainly);
        if mode == Mode::Block {
            return plainly();
        }
        let mut kind = Kind::of(number);
        loop {
            let result = match kind {
                Kind::Socket | Kind::StreamSocket | Kind::Tcp => short(self.by_message(number, buffers)),
                Kind::Stream => short(self.without_waiting(number, buffers)),
                Kind::Pollable => if_ready(),
                Kind::Terminal if self.direction == Direction::Write => if_ready(),
                Kind::Terminal => match terminal_settings(number) {
                    Some(settings) if settings.reads_nothing() => plainly(),
                    _ => if_ready(),
                },
                Kind::File | Kind::Unknown => plainly(),
            };
            match (kind, result) {
                // The number is of another open file by now.
                (_, Err(libc::ENOTSOCK)) if kind.is_socket() => kind = Kind::ask(number),
                (Kind::Stream, Err(libc::EOPNOTSUPP)) => {
                    kind = match Kind::ask(number) {
                        // A pipe that does not take the flag, with an old kernel.
                        Kind::Stream => Kind::Pollable,
                        other => other,
                    }
                }
                // A sandbox may refuse the call that does not block, though not the plain one.
                (_, Err(libc::EPERM | libc::ENOSYS)) if kind.is_socket() || kind == Kind::Stream => {
                    kind = Kind::Pollable
                }
                // A first write may open a connection (TCP_FASTOPEN_CONNECT).
                (_, Err(libc::EINPROGRESS)) => return Err(libc::EAGAIN),
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

    #[inline(never)]
    fn in_marked_section(&self, number: c_int, buffers: Buffers) -> Outcome<isize> {
        blocking(|| self.plainly(number, buffers))
    }

    fn plainly(&self, number: c_int, (buffers, count): Buffers) -> Outcome<isize> {
        // SAFETY: the caller of libc's function vouches for the buffers.
        outcome(unsafe { syscall6(self.plain, number as usize, buffers as usize, count, 0, 0, 0) })
    }

    fn run(&self, number: c_int, buffers: Buffers) -> Outcome<isize> {
        if buffers.1 > MOST_BUFFERS {
            return Err(libc::EINVAL);
        }
        match self.direction {
            Direction::Read => match length(buffers) {
                // Of nothing: a message would be taken from a socket, or waited for.
                0 => self.plainly(number, buffers),
                wanted => {
                    run_read(number, wanted, |number, mode| Ok(self.once(number, buffers, mode)?.bytes))
                }
            },
            Direction::Write => self.write_all(number, buffers),
        }
    }

    /// A call that writes to a stream returns before everything is written only if it fails.
    fn write_all(&self, number: c_int, buffers: Buffers) -> Outcome<isize> {
        let (mut rest, done) = (Rest::new(buffers), Cell::new(0));
        let call = |number: c_int, mode: Mode| {
            loop {
                let whole = !rest.is_inside_a_buffer();
                let written = self.once(number, rest.buffers(), mode)?;
                done.set(done.get() + written.bytes);
                let all = rest.advance(written.bytes as usize);
                // A short count of the plain call is the caller's, unless it was for the rest of one buffer.
                let end = if written.plain {
                    whole || rest.is_inside_a_buffer()
                } else {
                    !all && is_nonblocking(number)
                };
                if all || end {
                    return Ok(done.get());
                }
            }
        };
        let result = run(number, self.direction, call);
        if result.is_err() && done.get() > 0 { Ok(done.get()) } else { result }
    }
}

/// How many bytes the buffers have together. The kernel judges lengths that are too large.
fn length((buffers, count): Buffers) -> usize {
    // SAFETY: the caller of libc's function vouches for the array.
    (0..count).fold(0, |sum, at| unsafe { usize::saturating_add(sum, (*buffers.add(at)).iov_len) })
}

/// What is left of the buffers of a call that writes.
pub(in crate::transparent) struct Rest {
    buffers: Buffers,
    /// The first buffer, from which something was written: what is left of it.
    first: Option<libc::iovec>,
}

impl Rest {
    pub(in crate::transparent) fn new(buffers: Buffers) -> Rest {
        Rest { buffers, first: None }
    }

    /// The next ones to be written: what is left of one of them, or whole ones.
    pub(in crate::transparent) fn buffers(&self) -> Buffers {
        self.first.as_ref().map_or(self.buffers, |first| (std::ptr::from_ref(first), 1))
    }

    /// Whether a part of a buffer was written.
    fn is_inside_a_buffer(&self) -> bool {
        self.first.is_some()
    }

    /// Counts what was written. Returns whether that was the end.
    pub(in crate::transparent) fn advance(&mut self, mut written: usize) -> bool {
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

fn on_one(io: &Io, number: c_int, buffer: *const c_void, count: usize) -> Outcome<isize> {
    let buffer = one_buffer(buffer, count);
    io.run(number, (&raw const buffer, 1))
}

/// A call with a position is for a file: in a marked section.
macro_rules! marked {
    ($name:ident($($argument:expr),*)) => {
        // SAFETY: the caller vouches for the arguments.
        blocking(|| of_libc(unsafe { (real::$name.get())($($argument),*) } as isize))
    };
}

define! {
    fn read(number: c_int, buffer: *mut c_void, count: usize) -> isize,
        |_g| on_one(&READ, number, buffer, count);
    fn write(number: c_int, buffer: *const c_void, count: usize) -> isize,
        |_g| on_one(&WRITE, number, buffer, count);
    fn readv(number: c_int, buffers: *const libc::iovec, count: c_int) -> isize,
        |_g| READ.run(number, (buffers, count as usize));
    fn writev(number: c_int, buffers: *const libc::iovec, count: c_int) -> isize,
        |_g| WRITE.run(number, (buffers, count as usize));
    // What C code calls that was compiled with _FORTIFY_SOURCE. A buffer that is too small is libc's affair.
    fn __read_chk(number: c_int, buffer: *mut c_void, count: usize, size: usize) -> isize,
        |_g| if count > size { marked!(__read_chk(number, buffer, count, size)) } else {
            on_one(&READ, number, buffer, count)
        };

    fn pread(number: c_int, buffer: *mut c_void, count: usize, at: libc::off_t) -> isize,
        |_g| marked!(pread(number, buffer, count, at));
    fn pread64(number: c_int, buffer: *mut c_void, count: usize, at: libc::off64_t) -> isize,
        |_g| marked!(pread64(number, buffer, count, at));
    fn pwrite(number: c_int, buffer: *const c_void, count: usize, at: libc::off_t) -> isize,
        |_g| marked!(pwrite(number, buffer, count, at));
    fn pwrite64(number: c_int, buffer: *const c_void, count: usize, at: libc::off64_t) -> isize,
        |_g| marked!(pwrite64(number, buffer, count, at));
    fn preadv(number: c_int, buffers: *const libc::iovec, count: c_int, at: libc::off_t) -> isize,
        |_g| marked!(preadv(number, buffers, count, at));
    fn preadv64(number: c_int, buffers: *const libc::iovec, count: c_int, at: libc::off64_t) -> isize,
        |_g| marked!(preadv64(number, buffers, count, at));
    fn pwritev(number: c_int, buffers: *const libc::iovec, count: c_int, at: libc::off_t) -> isize,
        |_g| marked!(pwritev(number, buffers, count, at));
    fn pwritev64(number: c_int, buffers: *const libc::iovec, count: c_int, at: libc::off64_t) -> isize,
        |_g| marked!(pwritev64(number, buffers, count, at));

    fn splice(
        from: c_int,
        from_at: *mut libc::loff_t,
        to: c_int,
        to_at: *mut libc::loff_t,
        count: usize,
        flags: libc::c_uint,
    ) -> isize, |_g| {
        let waits = flags & libc::SPLICE_F_NONBLOCK == 0;
        transfer((from, to), waits, |from, to| marked!(splice(from, from_at, to, to_at, count, flags)))
    };
    fn sendfile(to: c_int, from: c_int, at: *mut libc::off_t, count: usize) -> isize,
        |_g| transfer((from, to), true, |from, to| marked!(sendfile(to, from, at, count)));
    fn sendfile64(to: c_int, from: c_int, at: *mut libc::off64_t, count: usize) -> isize,
        |_g| transfer((from, to), true, |from, to| marked!(sendfile64(to, from, at, count)));
    fn copy_file_range(
        from: c_int,
        from_at: *mut libc::off64_t,
        to: c_int,
        to_at: *mut libc::off64_t,
        count: usize,
        flags: libc::c_uint,
    ) -> isize, |_g| marked!(copy_file_range(from, from_at, to, to_at, count, flags));
}

/// A call that moves data between two descriptors, in a marked section, once both are ready. While it waits
/// for one of them, the call is made with what that has become if its number was closed.
fn transfer(
    (from, to): (c_int, c_int),
    waits: bool,
    call: impl Fn(c_int, c_int) -> Outcome<isize>,
) -> Outcome<isize> {
    if !waits {
        return call(from, to);
    }
    once_ready(from, Direction::Read, |from| once_ready(to, Direction::Write, |to| call(from, to)))
}

/// `call`, which may block, once the descriptor is ready or if it is O_NONBLOCK.
fn once_ready(
    number: c_int,
    direction: Direction,
    mut call: impl FnMut(c_int) -> Outcome<isize>,
) -> Outcome<isize> {
    let first = if_ready(number, direction, Mode::First, || Ok(call(number)));
    match first {
        Ok(result) => result,
        Err(_) if is_nonblocking(number) => call(number),
        Err(_) => wait_for(number, direction, deadline_of(number, direction), |number, mode| {
            if_ready(number, direction, mode, || call(number))
        }),
    }
}
