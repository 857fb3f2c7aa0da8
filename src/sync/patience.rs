//! How long a waiter lets others overtake it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Go's figure: long enough that a busy lock stays with whoever runs, short enough that nobody notices.
const LIMIT: Duration = Duration::from_millis(1);

/// Remembers since when somebody waits. Reads the clock only when asked, so a wait that ends well reads it
/// once.
pub(super) struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// Nobody waits yet.
    pub(super) fn new() -> Patience {
        Patience { since: None }
    }

    /// The wait begins, unless it has begun before.
    pub(super) fn start(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Whether the wait has been too long.
    pub(super) fn is_exhausted(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() > LIMIT)
    }
}

/// The time as a stamp that others can look at. In microseconds; it wraps after 71 minutes, and then calls a
/// very old stamp young for a millisecond.
pub(super) fn stamp() -> u32 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_micros() as u32
}

/// Whether a stamp is so old that its owner should wait no longer.
pub(super) fn is_overdue(since: u32) -> bool {
    u128::from(stamp().wrapping_sub(since)) > LIMIT.as_micros()
}
