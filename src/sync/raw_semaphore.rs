//! The semaphore itself: a count of permits, and a queue of those that wait for some.
//!
//! The word is twice the number of free permits, plus QUEUED, which says that the queue is not empty. While
//! QUEUED is set only the holder of the queue's lock takes permits, for those in the queue and in their order:
//! nobody overtakes, so a large request is not starved by small ones. Others only add permits; whoever does so
//! and finds QUEUED in the same step goes to the queue and gives out what there is.
//!
//! Why no wake-up is lost: everybody queues under the queue's lock, by a step that found too few permits (or
//! others before it) and left QUEUED set; permits that come later find it. Whoever leaves the queue without
//! having been served gives out what there is, too: it may have been the one for whom there was not enough.

use std::time::Instant;

use super::waitq::{ClaimedList, GRANTED, Node, Queue};
use crate::atomic::{AtomicUsize, Ordering};
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;

const QUEUED: usize = 1;
pub(super) const ONE: usize = 2;
/// The most permits there can be.
pub(super) const MAX_PERMITS: usize = usize::MAX / ONE;

pub(super) struct RawSemaphore {
    /// `ONE` times the free permits, plus QUEUED.
    pub(super) state: AtomicUsize,
    pub(super) waiting: Lock<Waiting>,
}

pub(super) struct Waiting {
    /// The tag of a node is the number of permits it asks for.
    pub(super) queue: Queue,
    /// How many permits there are, free or taken.
    pub(super) total: usize,
    /// The most there ever were or were said to be. A request for more than that is an error.
    pub(super) maximum: usize,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Acquired,
    TimedOut,
    /// More than the maximum, which is given.
    TooMany(usize),
}

impl RawSemaphore {
    /// The number of free permits.
    pub(super) fn available(&self) -> usize {
        self.state.load(Ordering::Relaxed) / ONE
    }

    #[inline]
    #[must_use]
    pub(super) fn try_acquire(&self, n: usize) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        if n == 0 {
            return true;
        }
        while state & QUEUED == 0 && state / ONE >= n {
            // Acquire pairs with the Release of those whose permits these were.
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
    pub(super) fn acquire(&self, n: usize, deadline: Option<Instant>) -> Outcome {
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
        // SAFETY: the node stays until it was granted, or has been removed below.
        unsafe { waiting.queue.push_back(&node) };
        drop(waiting);
        if node.park(WaitReason::Semaphore, std::ptr::from_ref(self) as usize, deadline) == GRANTED {
            return Outcome::Acquired;
        }
        let mut waiting = self.waiting.lock();
        waiting.queue.remove(&node);
        let served = self.serve(&mut waiting);
        drop(waiting);
        served.ready_all();
        Outcome::TimedOut
    }

    /// Gives permits back.
    #[inline]
    pub(super) fn release(&self, n: usize) {
        // Release pairs with the Acquire of whoever gets them.
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

    /// Makes `n` more permits. False, and nothing happens, if there would be more than `MAX_PERMITS`.
    #[must_use]
    pub(super) fn add(&self, n: usize) -> bool {
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

    /// `n` permits that somebody has are not coming back.
    pub(super) fn forget(&self, n: usize) {
        self.waiting.lock().total -= n;
    }

    /// Gives out what there is, in the order of the queue.
    fn serve(&self, waiting: &mut Waiting) -> ClaimedList {
        let mut served = ClaimedList::new();
        while let Some(n) = waiting.queue.front_tag() {
            // While QUEUED is set permits only become more.
            if self.state.load(Ordering::Relaxed) / ONE < n {
                return served;
            }
            if let Some(next) = waiting.queue.claim_front(GRANTED) {
                // Acquire pairs with the Releases of those whose permits these were; `ready` passes it on.
                self.state.fetch_sub(n * ONE, Ordering::Acquire);
                served.push(next);
            }
        }
        self.state.fetch_and(!QUEUED, Ordering::Relaxed);
        served
    }
}
