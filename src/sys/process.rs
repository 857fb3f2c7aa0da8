//! Processes: descriptors that stand for one (pidfds), forks, and the end of this one.

use std::ffi::CStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use super::syscall::syscall6;

/// The kernel's id of this process. A child of vfork, which shares the memory, gets its own.
#[cfg(feature = "transparent")]
pub(crate) fn id() -> u32 {
    // SAFETY: no preconditions.
    (unsafe { syscall6(libc::SYS_getpid, 0, 0, 0, 0, 0, 0) }) as u32
}

/// Opens a descriptor that becomes readable when the child process `pid` ends. The caller must not have
/// waited for the child yet; otherwise `pid` may belong to another process by now. Fails if the kernel is
/// older than 5.3, if a sandbox forbids the call, or if the process has no descriptors left.
pub(crate) fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed, and nobody else owns the descriptor that the call returns. (It is
    // close-on-exec.)
    unsafe {
        match syscall6(libc::SYS_pidfd_open, pid as usize, 0, 0, 0, 0, 0) {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error as i32)),
            fd => Ok(OwnedFd::from_raw_fd(fd as i32)),
        }
    }
}

/// Lets every child process that this one forks call `f`, before `fork` returns there.
pub(crate) fn at_fork_in_child(f: extern "C" fn()) {
    // SAFETY: libc calls the function in the child; what it may do is the caller's concern.
    unsafe { libc::pthread_atfork(None, None, Some(f)) };
}

/// Lets this process call `f` when it exits, while its other threads run on.
pub(crate) fn at_exit(f: extern "C" fn()) {
    // SAFETY: libc calls the function once; what it may do is the caller's concern. If there is no memory to
    // remember it, it is not called.
    unsafe { libc::atexit(f) };
}

/// The address of the function `name` in the libraries, if the program itself defines one of that name, too;
/// 0 if they have none. Takes the loader's lock.
pub(crate) fn next_definition(name: &CStr) -> usize {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize }
}

/// The address of the function `name` that the program and its libraries use; 0 if there is none. Takes the
/// loader's lock.
pub(crate) fn definition(name: &CStr) -> usize {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize }
}

/// Ends this process at once, without exit handlers: they may not run while other threads do.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

/// Aborts this process. Safe in a signal handler.
pub(crate) fn abort() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
