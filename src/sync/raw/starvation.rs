//! The time for which a waiter lets others overtake it before it counts as starving: a millisecond.
//!
//! In a bubble, a waiter that has lost once counts as starving at once, because the bubble's clock stands
//! still while any of its goroutines can run.

use crate::sched::park::clock::nanos;
use crate::sched::types::current::current_bubble;

/// The wait after which a waiter counts as starving: a millisecond in nanoseconds, Go's value. It is long
/// enough for a busy lock to stay with goroutines that run, and short enough to go unnoticed.
const LIMIT_NANOS: u64 = 1_000_000;
/// The same limit in microseconds, for stamps.
const LIMIT_MICROS: u32 = 1_000;

/// Remembers when a waiter began to wait. It reads the clock only on demand, so a wait that ends well reads
/// it once.
pub(in crate::sync) struct StarvationClock {
    since: Option<u64>,
}

impl StarvationClock {
    /// The wait has not begun.
    pub(in crate::sync) fn new() -> StarvationClock {
        StarvationClock { since: None }
    }

    /// Records the start of the wait, unless it has begun before.
    pub(in crate::sync) fn start(&mut self) {
        self.since.get_or_insert_with(nanos);
    }

    /// Whether the waiter counts as starving.
    pub(in crate::sync) fn is_starving(&self) -> bool {
        self.since.is_some_and(|since| current_bubble() != 0 || nanos() - since > LIMIT_NANOS)
    }
}

/// The current time in microseconds, as a stamp that others can check. It wraps after 71 minutes; a very old
/// stamp then looks young for a millisecond.
pub(in crate::sync) fn stamp() -> u32 {
    (nanos() / 1_000) as u32
}

/// Whether the waiter that made this stamp counts as starving.
pub(in crate::sync) fn is_overdue(since: u32) -> bool {
    current_bubble() != 0 || stamp().wrapping_sub(since) > LIMIT_MICROS
}
