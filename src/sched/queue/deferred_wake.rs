//! Deferring the wake-up of another M where that M would arrive too late to help.
//!
//! Two goroutines that exchange messages run one at a time, however many Ps there are. But each message would
//! wake an M for an idle P, and that M arrives too late, or moves one of the two to another core, where
//! nothing that it needs is cached. A P is *brisk* while a slice on it lasts less than [`BRIEF`] on average.
//! A goroutine that becomes runnable on a brisk P, and is the only one in its queue, waits for that P: the P
//! will likely run it before any other M could.
//!
//! This guess may be wrong: the running goroutine may compute for long from now on. So sysmon looks at brisk
//! Ps at short intervals (`PAUSE_WAITING`). When the P is no longer brisk, or is idle, sysmon clears the
//! flag, then wakes an M if the queue is not empty.
//!
//! This is an exception to the promise Q of the idle protocol (`../README.md`). No wake-up is lost: the
//! waker puts the goroutine into `runnext` and then reads the flag; sysmon clears the flag and then looks
//! into the queue; an M that looks at all queues before it sleeps ignores what a brisk P keeps, because
//! sysmon watches that. All of these accesses are SeqCst, except those of the ring: an M that misses a
//! goroutine put into the ring just now leaves that one to the P and to sysmon, too. `gort-loom` has the
//! model. While the flag is set sysmon does not sleep, because a P whose queue is not empty has an owner.

use super::runq::RunQueue;
use crate::base::atomic::{AtomicBool, Ordering, fence_after_seq_cst};

/// A P whose slices last less than this (ns) on average is brisk. To wake an M takes some microseconds, so
/// for a shorter slice another P is no gain.
const BRIEF: u64 = 1_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    Brisk,
    /// It was brisk until now: the caller must look into its queue, and wake an M if a goroutine waits there.
    NoLongerBrisk,
    Slow,
}

/// Whether a P is brisk. Written by sysmon only.
pub(crate) struct DeferredWake(AtomicBool);

impl DeferredWake {
    pub(crate) fn new() -> DeferredWake {
        DeferredWake(AtomicBool::new(false))
    }

    /// Called by sysmon: `slices` slices ended on this P within `nanos`, which is not 0.
    #[must_use]
    pub(crate) fn judge(&self, slices: u32, nanos: u64) -> Pace {
        let brisk = u64::from(slices) * BRIEF > nanos;
        let was = self.0.load(Ordering::Relaxed);
        if brisk != was {
            self.0.swap(brisk, Ordering::SeqCst);
            fence_after_seq_cst();
        }
        match (was, brisk) {
            (_, true) => Pace::Brisk,
            (true, false) => Pace::NoLongerBrisk,
            (false, false) => Pace::Slow,
        }
    }

    /// Whether the owner keeps what waits in this P's queue, so that no other M need be woken for it.
    #[inline]
    #[must_use]
    pub(crate) fn keeps<T>(&self, queue: &RunQueue<T>) -> bool {
        fence_after_seq_cst();
        self.0.load(Ordering::SeqCst) && queue.has_only_next()
    }
}
