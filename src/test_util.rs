//! Waiting for a condition, for unit tests. Integration tests have `tests/common/`.

use std::time::{Duration, Instant};

/// How long a condition may take before the test fails. Long, because the machine may be busy with other
/// work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Yields the thread until `condition` holds.
#[track_caller]
pub(crate) fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "the condition did not come true within {PATIENCE:?}");
        std::thread::yield_now();
    }
}
