//! OS threads.

use std::io;

use super::syscall::syscall6;

/// The kernel's id of the calling thread.
pub(crate) fn tid() -> u32 {
    // SAFETY: no preconditions.
    (unsafe { syscall6(libc::SYS_gettid, 0, 0, 0, 0, 0, 0) }) as u32
}

/// Starts a thread that nobody joins, with a stack of `stack` bytes and, if it goes, a name.
pub(crate) fn start(name: &str, stack: usize, main: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).stack_size(stack).spawn(main).map(drop)
}
