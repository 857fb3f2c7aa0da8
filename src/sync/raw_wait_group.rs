//! The counter under a wait group: one word and a queue.
//!
//! The word is twice the count, plus QUEUED, which says that somebody waits. Everybody queues under the
//! queue's lock by a step that found the count above zero and left QUEUED set; so the subtraction that makes
//! the count zero comes after, finds QUEUED and wakes the whole queue. It does so whatever the word is by
//! then: as long as QUEUED is set an addition to zero is refused, so no other generation can have begun.
//!
//! Orderings: each `done` releases what was done before it, and the last one acquires what the others
//! released, before it wakes anybody.

use std::time::Instant;

use super::waitq::{GRANTED, Node, Queue};
use crate::atomic::{AtomicU64, Ordering};
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;

const QUEUED: u64 = 1;
const ONE: u64 = 2;
/// Far above what can be counted, far below an overflow.
const MAX: u64 = u64::MAX / 4;

pub(super) struct RawWaitGroup {
    pub(super) state: AtomicU64,
    pub(super) queue: Lock<Queue>,
}

impl RawWaitGroup {
    pub(super) fn add(&self, n: usize) {
        if n == 0 {
            return;
        }
        let more = (n as u64).saturating_mul(ONE);
        assert!(more <= MAX, "WaitGroup counter overflow");
        let before = self.state.fetch_add(more, Ordering::Relaxed);
        if before == QUEUED || before > MAX {
            self.state.fetch_sub(more, Ordering::Relaxed);
            assert!(before <= MAX, "WaitGroup counter overflow");
            panic!("WaitGroup misuse: add called while those that wait for zero are still being woken");
        }
    }

    pub(super) fn done(&self) {
        // Release pairs with the Acquire of the last one, here, and of `wait`.
        let before = self.state.fetch_sub(ONE, Ordering::AcqRel);
        if !(ONE..=MAX).contains(&before) {
            self.state.fetch_add(ONE, Ordering::Relaxed);
            panic!("negative WaitGroup counter");
        }
        if before == ONE | QUEUED {
            self.wake_all();
        }
    }

    pub(super) fn count(&self) -> usize {
        (self.state.load(Ordering::Relaxed) / ONE) as usize
    }

    /// True when the count is or was zero, false if the deadline passed before.
    pub(super) fn wait(&self, reason: WaitReason, deadline: Option<Instant>) -> bool {
        // Acquire pairs with the Release in `done`.
        self.state.load(Ordering::Acquire) < ONE || self.wait_slow(reason, deadline)
    }

    #[cold]
    fn wait_slow(&self, reason: WaitReason, deadline: Option<Instant>) -> bool {
        let node = Node::new(0);
        let mut queue = self.queue.lock();
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            if state < ONE {
                return true;
            }
            let queued = state | QUEUED;
            match self.state.compare_exchange_weak(state, queued, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: the node stays until it was granted, or has been removed below.
        unsafe { queue.push_back(&node) };
        drop(queue);
        if node.park(reason, std::ptr::from_ref(self) as usize, deadline) == GRANTED {
            return true;
        }
        let mut queue = self.queue.lock();
        queue.remove(&node);
        if queue.is_empty() {
            self.state.fetch_and(!QUEUED, Ordering::Relaxed);
        }
        false
    }

    #[cold]
    fn wake_all(&self) {
        let mut queue = self.queue.lock();
        let all = queue.take_all(GRANTED);
        self.state.fetch_and(!QUEUED, Ordering::Relaxed);
        drop(queue);
        all.ready_all();
    }
}
