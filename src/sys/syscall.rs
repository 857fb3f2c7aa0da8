//! Raw system calls, without libc: they do not set errno and so touch no thread-local storage.

use std::io;

pub(crate) use crate::arch::syscall6;

/// Converts the return value of a raw call into a `Result`.
#[inline]
pub(crate) fn returned(result: isize) -> io::Result<usize> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(result as usize) }
}
