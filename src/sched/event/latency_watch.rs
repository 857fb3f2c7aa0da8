//! The watch for scheduling latencies: goroutines that were runnable for longer than a limit before they ran.
//! It is on while the flight recorder wants it, and uses the times of events, which were read anyway.
//!
//! When a goroutine becomes runnable, the thread that owns it notes the time in it; the M that starts it
//! looks how long ago that was. Times from before the watch began do not count: those goroutines have old
//! notes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::EVENTS;
use crate::sys::clock::nanotime;

pub(crate) struct LatencyWatch {
    /// The longest latency allowed (ns). `u64::MAX`: the watch is off.
    limit: AtomicU64,
    /// When the watch began (ns).
    began: AtomicU64,
    /// The longest one that nobody has taken notice of (ns), or 0.
    worst: AtomicU64,
}

impl LatencyWatch {
    pub(super) const fn new() -> LatencyWatch {
        LatencyWatch { limit: AtomicU64::new(u64::MAX), began: AtomicU64::new(0), worst: AtomicU64::new(0) }
    }

    /// Begins the watch, after logs were turned on and all threads know that.
    pub(crate) fn begin(&self, limit: u64) {
        self.worst.store(0, Ordering::Relaxed);
        self.began.store(nanotime(), Ordering::Relaxed);
        // Release pairs with the Acquire in `is_on`: a thread that sees the limit sees `began`.
        self.limit.store(limit, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.limit.store(u64::MAX, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.limit.load(Ordering::Acquire) != u64::MAX
    }

    /// A goroutine that became runnable at `since` starts at `now` (ns). The caller may be a signal handler.
    pub(crate) fn see(&self, since: u64, now: u64) {
        let latency = now.saturating_sub(since);
        if latency > self.limit.load(Ordering::Acquire)
            && since >= self.began.load(Ordering::Relaxed)
            && self.worst.fetch_max(latency, Ordering::Relaxed) == 0
        {
            EVENTS.wake.set();
        }
    }

    /// Takes notice of the longest latency above the limit since the last call (ns).
    pub(crate) fn take(&self) -> Option<u64> {
        Some(self.worst.swap(0, Ordering::Relaxed)).filter(|&worst| worst != 0)
    }
}
