//! Reading the clock. Everything in gort that compares or adds times asks here and nowhere else, so that a goroutine
//! in a bubble (`testing`) sees the bubble's time.
//!
//! A time is an `Instant` where users see it and nanoseconds of the monotonic clock where timers do. Inside a bubble
//! both are made up, by the same offset.

use std::time::{Duration, Instant};

use crate::context::ambient;
use crate::sched::bubble;
use crate::sys::clock::nanotime;
use crate::timer::NEVER;

/// As long as makes no difference to for ever, and can be added to any instant.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The time of the calling goroutine or thread.
#[inline]
pub(crate) fn now() -> Instant {
    match bubble::current() {
        None => Instant::now(),
        Some(bubble) => bubble.instant(),
    }
}

/// As [`now`], in nanoseconds.
#[inline]
pub(crate) fn nanos() -> u64 {
    match bubble::current() {
        None => nanotime(),
        Some(bubble) => bubble.nanos(),
    }
}

/// The nanoseconds at `deadline`; what is too far away is `NEVER`.
pub(crate) fn nanos_at(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(now()).as_nanos();
    u64::try_from(left).ok().and_then(|left| nanos().checked_add(left)).unwrap_or(NEVER)
}

/// The instant `timeout` from now; `None`, which means for ever, if there is no such instant. A wait that a context
/// may end has a deadline in any case: only those with one can give up.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    let now = now();
    now.checked_add(timeout).or_else(|| ambient::is_set().then(|| now + CENTURY))
}
