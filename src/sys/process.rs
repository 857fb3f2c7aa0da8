//! Descriptors of processes.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use super::syscall::syscall6;

/// A descriptor that becomes readable when the process ends. The caller has not waited for that child yet, so the number is
/// still its own. An error: the kernel is older than 5.3, a sandbox forbids it, or there are no descriptors left.
pub(crate) fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed; the descriptor that the call returns is ours, and is closed on exec.
    unsafe {
        match syscall6(libc::SYS_pidfd_open, pid as usize, 0, 0, 0, 0, 0) {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error as i32)),
            fd => Ok(OwnedFd::from_raw_fd(fd as i32)),
        }
    }
}
