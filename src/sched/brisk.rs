//! Ps whose goroutines take turns so quickly that one more P would only be in their way.
//!
//! Two goroutines that ask and answer each other run one at a time, however many Ps there are. But each wake-up would
//! call an idle P's M, which comes too late, or moves one of the two to another core, where it finds none of what it needs.
//! A P is brisk while a slice on it lasts less than [`BRIEF`] on average. Then a goroutine that is made runnable there, and
//! is the only one that waits there, waits for that P: it will likely get it before anybody else could come.
//!
//! That may be wrong: the goroutine that runs may compute for long from now on. So sysmon looks at a brisk P again soon, and
//! again (`PAUSE_WAITING`), and when it is no longer brisk, or idle, takes the word back and wakes somebody if one waits there.
//! No wake-up is lost: the maker puts the goroutine into `runnext` and then reads the word; sysmon takes the word back and then
//! looks into the queue; and who looks at all queues before it sleeps ignores what is kept, which is sysmon's by then. All
//! SeqCst (but for the ring: who sees it a moment too late leaves its goroutines to the P and to sysmon, too); `gort-loom` has
//! the model. While the word stands sysmon does not sleep: a P whose queue is not empty has an owner.

use super::runq::RunQueue;
use crate::atomic::{AtomicBool, Ordering, fence_after_seq_cst};

/// A slice that is not worth another P, in nanoseconds: to wake its M takes some microseconds.
const BRIEF: u64 = 1_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Brisk,
    /// The caller has to look into its queue, and to wake somebody if one waits there.
    NoLonger,
    Not,
}

/// Whether a P is brisk. Written by sysmon only.
pub(crate) struct Brisk(AtomicBool);

impl Brisk {
    pub(crate) fn new() -> Brisk {
        Brisk(AtomicBool::new(false))
    }

    /// So many slices ended on this P within `nanos`, which is not 0.
    #[must_use]
    pub(crate) fn judge(&self, slices: u32, nanos: u64) -> Verdict {
        let brisk = u64::from(slices) * BRIEF > nanos;
        let was = self.0.load(Ordering::Relaxed);
        if brisk != was {
            self.0.swap(brisk, Ordering::SeqCst);
            fence_after_seq_cst();
        }
        match (was, brisk) {
            (_, true) => Verdict::Brisk,
            (true, false) => Verdict::NoLonger,
            (false, false) => Verdict::Not,
        }
    }

    /// Whether what waits in this P's queue need not be told to others.
    #[inline]
    #[must_use]
    pub(crate) fn keeps<T>(&self, queue: &RunQueue<T>) -> bool {
        fence_after_seq_cst();
        self.0.load(Ordering::SeqCst) && queue.has_only_next()
    }
}
