//! Waiting for I/O readiness. The scheduler's `poller.rs` decides who waits, and until when.

use std::time::{Duration, Instant};

use crate::sched::glist::GList;
use crate::sched::note::Note;

static WAKE: Note = Note::new();

/// Blocks the thread until a descriptor is ready, somebody interrupts, or the time is over. Goroutines that became
/// runnable are appended to `ready`.
pub(crate) fn wait(timeout_nanos: Option<u64>, _ready: &GList) {
    WAKE.wait_until(timeout_nanos.map(|n| Instant::now() + Duration::from_nanos(n)));
}

/// Ends a wait that is under way, or the next one.
pub(crate) fn interrupt() {
    WAKE.set();
}

/// Whether a goroutine waits for I/O.
pub(crate) fn has_waiters() -> bool {
    false
}
