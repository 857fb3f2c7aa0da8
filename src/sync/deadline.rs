//! Timeouts to deadlines.

use std::time::{Duration, Instant};

/// The instant `timeout` from now; `None`, which means for ever, if there is no such instant.
pub(super) fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}
