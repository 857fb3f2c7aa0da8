//! Decides whether a libc call comes from a goroutine that may park.

use std::ffi::c_int;

use super::{enabled, place};
use crate::sched::types::current::current;
use crate::sched::types::g::G;

/// The calling goroutine, if its calls are to wait as a goroutine does: it runs user code on its own stack.
/// Otherwise the call is libc's: on a foreign thread, on g0, in a signal handler, inside the runtime, in a
/// marked blocking call, and in a child process.
#[inline]
pub(in crate::transparent) fn caller() -> Option<&'static G> {
    if !enabled::is_on() {
        return None;
    }
    let g = current()?;
    (g.in_runtime.get() == 0 && !g.blocking.get() && place::is_user_code(g)).then_some(g)
}

/// An error number of the kernel.
pub(in crate::transparent) type Errno = c_int;
pub(in crate::transparent) type Outcome<T> = Result<T, Errno>;

/// The number of an error of gort's own calls.
pub(in crate::transparent) fn errno_of(error: std::io::Error) -> Errno {
    error.raw_os_error().unwrap_or(libc::ENOMEM)
}

/// What a raw system call returned.
#[inline]
pub(in crate::transparent) fn outcome(result: isize) -> Outcome<isize> {
    if result < 0 { Err(-result as Errno) } else { Ok(result) }
}

/// The integer that a function of libc returns: -1 if it failed.
pub(in crate::transparent) trait Integer {
    fn from_isize(value: isize) -> Self;
}

impl Integer for isize {
    #[inline]
    fn from_isize(value: isize) -> isize {
        value
    }
}

impl Integer for c_int {
    #[inline]
    fn from_isize(value: isize) -> c_int {
        value as c_int
    }
}

impl Integer for libc::c_uint {
    #[inline]
    fn from_isize(value: isize) -> libc::c_uint {
        value as libc::c_uint
    }
}

/// As libc reports it: the value, or -1 and errno.
#[inline]
pub(in crate::transparent) fn report<T: Integer>(outcome: Outcome<isize>) -> T {
    T::from_isize(outcome.unwrap_or_else(|error| {
        set_errno(error);
        -1
    }))
}

/// Not inlined: the goroutine may have moved, and the compiler may have cached errno's address.
#[cold]
#[inline(never)]
fn set_errno(error: Errno) {
    // SAFETY: libc's errno of the caller.
    unsafe { *libc::__errno_location() = error };
}

/// The error of a libc function that has just failed on this thread.
#[inline(never)]
pub(in crate::transparent) fn errno() -> Errno {
    // SAFETY: libc's errno of the caller.
    unsafe { *libc::__errno_location() }
}

/// As [`outcome`], for a function of libc.
#[inline]
pub(in crate::transparent) fn of_libc(result: isize) -> Outcome<isize> {
    if result == -1 { Err(errno()) } else { Ok(result) }
}
