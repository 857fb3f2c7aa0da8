//! Waiting for a condition, with a limit.

use std::time::{Duration, Instant};

/// How long a condition may take before the test fails: 100 seconds, because the machine may be busy with
/// other work. `GORT_PATIENCE` sets another number of seconds, for example to see quickly that a test fails.
pub(crate) fn patience() -> Duration {
    let seconds = std::env::var("GORT_PATIENCE").ok().and_then(|value| value.parse().ok());
    Duration::from_secs(seconds.unwrap_or(100))
}

/// Yields until `condition` holds.
#[track_caller]
pub(crate) fn until(what: &str, condition: impl FnMut() -> bool) {
    wait(what, condition, gort::yield_now);
}

/// Like [`until`], but keeps the processor: for goroutines that must not enter the runtime.
#[track_caller]
pub(crate) fn spin_until(what: &str, condition: impl FnMut() -> bool) {
    wait(what, condition, std::hint::spin_loop);
}

#[track_caller]
fn wait(what: &str, mut condition: impl FnMut() -> bool, pause: fn()) {
    let (start, patience) = (Instant::now(), patience());
    while !condition() {
        assert!(start.elapsed() < patience, "gave up waiting until {what}");
        pause();
    }
}
