//! The caller's clock. Everything in gort that compares or adds times reads it here, so that a goroutine in a
//! bubble (`testing/`) sees the bubble's time.
//!
//! A time is an `Instant` where users see it and nanoseconds of the monotonic clock where timers do. Inside a
//! bubble both are virtual, with the same offset.

use std::time::{Duration, Instant};

use super::limit;
use crate::sched::machine::hooks;
use crate::sched::types::current::current_bubble;
use crate::sys::clock::nanotime;
use crate::timer::NEVER;

/// A deadline that stands for "forever": no program waits this long, and it can be added to any instant.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The time of the calling goroutine or thread.
#[inline]
pub(crate) fn now() -> Instant {
    match current_bubble() {
        0 => Instant::now(),
        number => (hooks().bubble.instant)(number),
    }
}

/// As [`now`], in nanoseconds.
#[inline]
pub(crate) fn nanos() -> u64 {
    match current_bubble() {
        0 => nanotime(),
        number => (hooks().bubble.nanos)(number),
    }
}

/// `deadline` in nanoseconds of the caller's clock; `NEVER` if it is too far away.
pub(crate) fn nanos_at(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(now()).as_nanos();
    u64::try_from(left).ok().and_then(|left| nanos().checked_add(left)).unwrap_or(NEVER)
}

/// The instant `timeout` from now; `None`, which means forever, if there is no such instant. A wait that a
/// context may end has a deadline in any case: only waits with one can give up.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    let now = now();
    now.checked_add(timeout).or_else(|| limit::is_set().then(|| now + CENTURY))
}
