//! The monotonic clock, read through the vDSO: no system call, no thread-local storage.

/// The time of CLOCK_MONOTONIC in nanoseconds.
#[inline]
pub(crate) fn nanotime() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the timespec; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
