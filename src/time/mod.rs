//! Sleeping.

use std::time::{Duration, Instant};

use crate::sched::{park, section};
use crate::sys::clock::nanotime;
use crate::timer;

/// Stops the calling goroutine (or blocks the calling thread) for at least `duration`.
///
/// `Duration::MAX` means for ever. A sleep allocates nothing and holds no thread.
///
/// ```
/// use std::time::{Duration, Instant};
/// gort::run(|| {
///     let start = Instant::now();
///     gort::time::sleep(Duration::from_millis(2));
///     assert!(start.elapsed() >= Duration::from_millis(2));
/// });
/// ```
pub fn sleep(duration: Duration) {
    match section::current() {
        Some(_) if duration.is_zero() => park::yield_now(),
        Some(g) => {
            let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            park::sleep_goroutine(g, nanotime().saturating_add(nanos));
        }
        None => std::thread::sleep(duration),
    }
}

/// As [`sleep`], until a moment; returns at once if it is over.
///
/// ```
/// use std::time::{Duration, Instant};
/// let deadline = Instant::now() + Duration::from_millis(1);
/// gort::run(|| gort::time::sleep_until(deadline));
/// assert!(Instant::now() >= deadline);
/// ```
pub fn sleep_until(deadline: Instant) {
    match section::current() {
        Some(g) if deadline > Instant::now() => park::sleep_goroutine(g, timer::nanos_at(deadline)),
        Some(_) => park::yield_now(),
        None => std::thread::sleep(deadline.saturating_duration_since(Instant::now())),
    }
}
