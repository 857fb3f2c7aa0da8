//! OS threads.

use std::io;

use super::syscall::syscall6;

/// The kernel's id of the calling thread.
pub(crate) fn tid() -> u32 {
    // SAFETY: no preconditions.
    (unsafe { syscall6(libc::SYS_gettid, 0, 0, 0, 0, 0, 0) }) as u32
}

/// Nanoseconds of CPU time that the thread `tid` of this process has used.
pub(crate) fn cpu_nanos(tid: u32) -> Option<u64> {
    // How the kernel names the CPU clock of a thread (scheduler clock, one thread).
    const PER_THREAD_SCHED: u32 = 4 | 2;
    let clock = (!tid << 3) | PER_THREAD_SCHED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the timespec.
    let result =
        unsafe { syscall6(libc::SYS_clock_gettime, clock as usize, &raw mut time as usize, 0, 0, 0, 0) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Starts a thread that nobody joins, with a stack of `stack` bytes and, if it goes, a name.
pub(crate) fn start(name: &str, stack: usize, main: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).stack_size(stack).spawn(main).map(drop)
}
