//! Who keeps the time: of the Ms that wait for I/O, each in a place of its own, one wakes up for the next timer, too.
//!
//! `until` is the time at which it will wake up by itself, 0 when nobody keeps the time, and `place` where it waits.
//!
//! - K1. The keeper publishes both and looks at all timers after; who starts a timer publishes the timer first and looks at
//!   `until` and `place` after. So either the keeper sees the timer, or its starter sees the keeper and interrupts it. (If it sees a
//!   keeper that has left, the next one began after the timer was published, and sees it.)
//! - K2. The keeper gives its part up before its place. So whoever finds all places taken need not keep the time: somebody does,
//!   or is about to, or has just woken up; that one comes by again, or found no idle P, whose Ms will.

use crate::atomic::{AtomicU64, AtomicUsize, Ordering, fence_after_seq_cst};

/// What `until` is while the keeper looks for the next timer, and if there is none.
const NEVER: u64 = u64::MAX;

pub(crate) struct Keeper {
    until: AtomicU64,
    place: AtomicUsize,
}

impl Keeper {
    /// Nobody: both 0. Given by the caller because loom's atomics cannot be made in a constant.
    pub(crate) const fn new(until: AtomicU64, place: AtomicUsize) -> Keeper {
        Keeper { until, place }
    }

    /// The caller, who waits at `place`, keeps the time from now on. False: somebody else does. If it does, it looks at the timers
    /// next and calls `will_wake_at`.
    #[must_use]
    pub(crate) fn begin(&self, place: usize) -> bool {
        if self.until.compare_exchange(0, NEVER, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return false;
        }
        self.place.store(place, Ordering::SeqCst);
        fence_after_seq_cst();
        true
    }

    /// The keeper will wake up then, unless it is interrupted.
    pub(crate) fn will_wake_at(&self, until: u64) {
        self.until.store(until, Ordering::SeqCst);
    }

    /// The keeper woke up.
    pub(crate) fn end(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    /// When the keeper will wake up by itself; 0: there is none. Asked after a timer was published.
    #[inline]
    pub(crate) fn until(&self) -> u64 {
        fence_after_seq_cst();
        self.until.load(Ordering::SeqCst)
    }

    /// Where to interrupt it, after [`until`](Keeper::until) said that it would come too late.
    pub(crate) fn place(&self) -> usize {
        self.place.load(Ordering::SeqCst)
    }
}
