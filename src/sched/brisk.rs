//! Ps whose goroutines take turns so quickly that one more P would only be in their way.
//!
//! Two goroutines that ask and answer each other run one at a time, however many Ps there are. But each wake-up would
//! call an idle P's M, which comes too late, or moves one of the two to another core, where it finds none of what it needs.
//! A P is brisk while a slice on it lasts less than [`BRIEF`] on average. Then a goroutine that is made runnable there, and
//! is the only one that waits there, waits for that P: it will likely get it before anybody else could come.
//!
//! It may be wrong: the goroutine that runs may compute for long from now on. So sysmon looks at a brisk P again soon
//! (`PAUSE_WAITING`), and when it is no longer brisk, or idle, takes the word back and wakes somebody if one waits there.
//! No wake-up is lost: the maker puts the goroutine into `runnext` and then reads the word, sysmon takes the word back and then
//! looks into the queue, all SeqCst. As long as the word stands the P has an owner, so sysmon does not sleep.

use super::p::P;
use super::wake;
use crate::atomic::Ordering;

/// A slice that is not worth another P, in nanoseconds: to wake its M takes some microseconds.
const BRIEF: u64 = 1_000;

/// By sysmon: so many slices ended on this P within `nanos`.
pub(super) fn judge(p: &'static P, slices: u32, nanos: u64) {
    let brisk = u64::from(slices) * BRIEF > nanos;
    if brisk {
        p.brisk.store(true, Ordering::SeqCst);
    } else if p.brisk.load(Ordering::Relaxed) {
        take_back(p);
    }
}

/// By sysmon: the P is idle, or no longer brisk.
#[cold]
fn take_back(p: &'static P) {
    p.brisk.store(false, Ordering::SeqCst);
    if !p.runq.is_empty() {
        wake::wake_p();
    }
}

/// Whether what waits at this P need not be told to others.
#[inline]
pub(super) fn keeps_next(p: &P) -> bool {
    p.brisk.load(Ordering::SeqCst) && p.runq.has_only_next()
}
