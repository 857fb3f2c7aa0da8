//! The monotonic clock as a number.

/// Nanoseconds of the monotonic clock. Takes no lock and, being answered by the vDSO, no system call: fit for
/// use under a runtime lock.
pub(crate) fn nanotime() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the timespec is ours; the call writes nothing else. It cannot fail: every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::nanotime;

    #[test]
    fn it_agrees_with_the_clock_of_std() {
        let (start, instant) = (nanotime(), Instant::now());
        std::thread::sleep(Duration::from_millis(2));
        let inner = instant.elapsed();
        let outer = Duration::from_nanos(nanotime() - start);
        assert!(inner >= Duration::from_millis(2));
        assert!(outer >= inner);
        assert!(outer <= instant.elapsed() + Duration::from_millis(100));
    }
}
