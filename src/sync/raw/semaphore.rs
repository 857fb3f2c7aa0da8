//! The semaphore itself: a count of free permits, and a queue of the waiters that need some.
//!
//! The word is twice the number of free permits, plus QUEUED, which says that the queue is not empty. While
//! QUEUED is set, only the holder of the queue's lock takes permits. It takes them for the queued waiters, in
//! the order of the queue. So nobody overtakes, and small requests cannot starve a large one. Others only add
//! permits. A goroutine that adds permits and finds QUEUED in the same step takes the queue's lock and
//! distributes the free permits.
//!
//! Why no wake-up is lost: a waiter queues under the queue's lock, by a step that found too few permits (or
//! other waiters) and left QUEUED set. Any later addition of permits finds QUEUED. A waiter that leaves the
//! queue unserved also distributes the free permits, because they may have been too few for its request and
//! yet enough for the next.

use std::time::Instant;

use super::waitq::{ClaimedList, GRANTED, Node, Queue};
use crate::base::atomic::{AtomicUsize, Ordering};
use crate::base::lock::{Lock, Rank, Ranked};
use crate::sched::word::status::WaitReason;

const QUEUED: usize = 1;
pub(in crate::sync) const ONE: usize = 2;
/// The largest number of permits that fits into the word beside QUEUED.
pub(in crate::sync) const MAX_PERMITS: usize = usize::MAX / ONE;

pub(in crate::sync) struct RawSemaphore {
    /// `ONE` times the free permits, plus QUEUED.
    pub(in crate::sync) state: AtomicUsize,
    pub(in crate::sync) waiting: Lock<Waiting>,
}

pub(in crate::sync) struct Waiting {
    /// The tag of a node is the number of permits it asks for.
    pub(in crate::sync) queue: Queue,
    /// The number of permits that exist, free or taken.
    pub(in crate::sync) total: usize,
    /// The maximum: the given one, or the largest `total` so far if that is more. A request for more is an
    /// error.
    pub(in crate::sync) maximum: usize,
}

impl Ranked for Waiting {
    const RANK: Rank = Rank::Alone;
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sync) enum Outcome {
    Acquired,
    TimedOut,
    /// The request was for more than the maximum, which is in the variant.
    TooMany(usize),
}

impl RawSemaphore {
    /// The number of free permits.
    pub(in crate::sync) fn available(&self) -> usize {
        self.state.load(Ordering::Relaxed) / ONE
    }

    #[inline]
    #[must_use]
    pub(in crate::sync) fn try_acquire(&self, n: usize) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        if n == 0 {
            return true;
        }
        while state & QUEUED == 0 && state / ONE >= n {
            // Acquire pairs with the Release of the goroutines that returned these permits.
            match self.state.compare_exchange_weak(
                state,
                state - n * ONE,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[inline]
    pub(in crate::sync) fn acquire(&self, n: usize, deadline: Option<Instant>) -> Outcome {
        if self.try_acquire(n) { Outcome::Acquired } else { self.acquire_slow(n, deadline) }
    }

    #[cold]
    fn acquire_slow(&self, n: usize, deadline: Option<Instant>) -> Outcome {
        let node = Node::new(n);
        let mut waiting = self.waiting.lock();
        if n > waiting.maximum {
            return Outcome::TooMany(waiting.maximum);
        }
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let enough = state & QUEUED == 0 && state / ONE >= n;
            let next = if enough { state - n * ONE } else { state | QUEUED };
            match self.state.compare_exchange_weak(state, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if enough => return Outcome::Acquired,
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: we keep the node until a waker has granted it, or we have removed it below.
        unsafe { waiting.queue.push_back(node.link()) };
        drop(waiting);
        if node.park(WaitReason::Semaphore, std::ptr::from_ref(self) as usize, deadline) == GRANTED {
            return Outcome::Acquired;
        }
        let mut waiting = self.waiting.lock();
        // SAFETY: the node is ours, and if it is linked then here.
        unsafe { waiting.queue.remove(node.link()) };
        let served = self.serve(&mut waiting);
        drop(waiting);
        served.ready_all();
        Outcome::TimedOut
    }

    /// Returns `n` permits.
    #[inline]
    pub(in crate::sync) fn release(&self, n: usize) {
        // Release pairs with the Acquire of the next holder of these permits.
        let before = self.state.fetch_add(n * ONE, Ordering::Release);
        if before & QUEUED != 0 {
            self.release_slow();
        }
    }

    #[cold]
    fn release_slow(&self) {
        let mut waiting = self.waiting.lock();
        let served = self.serve(&mut waiting);
        drop(waiting);
        served.ready_all();
    }

    /// Adds `n` new permits. If there would be more than `MAX_PERMITS`, does nothing and returns false.
    #[must_use]
    pub(in crate::sync) fn add(&self, n: usize) -> bool {
        let mut waiting = self.waiting.lock();
        let Some(total) = waiting.total.checked_add(n).filter(|total| *total <= MAX_PERMITS) else {
            return false;
        };
        waiting.total = total;
        waiting.maximum = waiting.maximum.max(total);
        self.state.fetch_add(n * ONE, Ordering::Release);
        let served = self.serve(&mut waiting);
        drop(waiting);
        served.ready_all();
        true
    }

    /// Records that the holder of `n` permits will never return them.
    pub(in crate::sync) fn forget(&self, n: usize) {
        self.waiting.lock().total -= n;
    }

    /// Distributes the free permits, in the order of the queue.
    fn serve(&self, waiting: &mut Waiting) -> ClaimedList {
        let mut served = ClaimedList::new();
        while let Some(n) = waiting.queue.front_tag() {
            // While QUEUED is set, others only add permits.
            if self.state.load(Ordering::Relaxed) / ONE < n {
                return served;
            }
            if let Some(next) = waiting.queue.claim_front(GRANTED) {
                // Acquire pairs with the Releases of the goroutines that returned these permits; `ready`
                // passes their writes on to the waiter.
                self.state.fetch_sub(n * ONE, Ordering::Acquire);
                served.push(next);
            }
        }
        self.state.fetch_and(!QUEUED, Ordering::Relaxed);
        served
    }
}
