//! timerfd, as raw system calls: they run on g0, which must not touch errno.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use super::syscall::{returned, syscall6};

/// Creates a timer on the monotonic clock. A thread that waits for it blocks in [`wait`].
pub(crate) fn create() -> io::Result<OwnedFd> {
    let (clock, flags) = (libc::CLOCK_MONOTONIC as usize, libc::TFD_CLOEXEC as usize);
    // SAFETY: no memory is passed, and nobody else owns the descriptor that the call returns.
    unsafe {
        let fd = returned(syscall6(libc::SYS_timerfd_create, clock, flags, 0, 0, 0, 0))?;
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Sets the timer to go off once, `nanos` from now, which must not be 0; forgets what was set before, and
/// that it went off. False: the program has closed the descriptor, which is not its own.
pub(crate) fn set(fd: i32, nanos: u64) -> bool {
    set_time(fd, nanos)
}

/// Forgets what was set, and that the timer went off. False: as of [`set`].
pub(crate) fn clear(fd: i32) -> bool {
    set_time(fd, 0)
}

fn set_time(fd: i32, nanos: u64) -> bool {
    let value =
        libc::timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    let spec = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    // SAFETY: the kernel reads one itimerspec.
    unsafe { syscall6(libc::SYS_timerfd_settime, fd as usize, 0, &raw const spec as usize, 0, 0, 0) == 0 }
}

/// Blocks the thread until the timer has gone off, or until a signal interrupts it. It reads nothing: if the
/// program has closed the descriptor, its number may be that of a file of the program.
pub(crate) fn wait(fd: i32) {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel reads and writes one pollfd.
    unsafe { syscall6(libc::SYS_ppoll, &raw mut poll as usize, 1, 0, 0, 0, 0) };
}
