//! How long a waiter lets others overtake it.
//!
//! In a bubble, whose clock stands still as long as anybody can run: not at all once it has lost.

use crate::sched::bubble;
use crate::time::clock::nanos;

/// A millisecond, Go's figure: long enough that a busy lock stays with whoever runs, short enough that nobody
/// notices.
const LIMIT_NANOS: u64 = 1_000_000;
const LIMIT_MICROS: u32 = 1_000;

/// Remembers since when somebody waits. Reads the clock only when asked, so a wait that ends well reads it
/// once.
pub(super) struct Patience {
    since: Option<u64>,
}

impl Patience {
    /// Nobody waits yet.
    pub(super) fn new() -> Patience {
        Patience { since: None }
    }

    /// The wait begins, unless it has begun before.
    pub(super) fn start(&mut self) {
        self.since.get_or_insert_with(nanos);
    }

    /// Whether the wait has been too long.
    pub(super) fn is_exhausted(&self) -> bool {
        self.since.is_some_and(|since| bubble::number() != 0 || nanos() - since > LIMIT_NANOS)
    }
}

/// The time as a stamp that others can look at. In microseconds; it wraps after 71 minutes, and then calls a
/// very old stamp young for a millisecond.
pub(super) fn stamp() -> u32 {
    (nanos() / 1_000) as u32
}

/// Whether a stamp is so old that its owner should wait no longer.
pub(super) fn is_overdue(since: u32) -> bool {
    bubble::number() != 0 || stamp().wrapping_sub(since) > LIMIT_MICROS
}
