//! The counter of a wait group: one word and a queue.
//!
//! The word is twice the count, plus QUEUED, which says that the queue is not empty. A waiter queues under
//! the queue's lock, by a step that found the count above zero and left QUEUED set. The subtraction that
//! makes the count zero comes later, so it finds QUEUED and wakes the whole queue. It need not look at the
//! word again before it wakes: while QUEUED is set an addition to zero panics, so no other round can have
//! begun.
//!
//! Orderings: each `done` releases the work before it. The last `done` acquires what the others released,
//! before it wakes any waiter.

use std::time::Instant;

use super::waitq::{GRANTED, Node, Queue};
use crate::base::atomic::{AtomicU64, Ordering};
use crate::base::lock::Lock;
use crate::sched::word::status::WaitReason;

const QUEUED: u64 = 1;
const ONE: u64 = 2;
/// The largest word that `add` and `done` accept: a quarter of the `u64` range. No program counts that far,
/// and no single addition can overflow from there.
const MAX: u64 = u64::MAX / 4;

pub(in crate::sync) struct RawWaitGroup {
    pub(in crate::sync) state: AtomicU64,
    pub(in crate::sync) queue: Lock<Queue>,
}

impl RawWaitGroup {
    pub(in crate::sync) fn add(&self, n: usize) {
        if n == 0 {
            return;
        }
        let more = (n as u64).saturating_mul(ONE);
        assert!(more <= MAX, "WaitGroup counter overflow");
        let before = self.state.fetch_add(more, Ordering::Relaxed);
        if before == QUEUED || before > MAX {
            self.state.fetch_sub(more, Ordering::Relaxed);
            assert!(before <= MAX, "WaitGroup counter overflow");
            panic!("WaitGroup misuse: add called while the waiters of the last round are still being woken");
        }
    }

    pub(in crate::sync) fn done(&self) {
        // Release pairs with the Acquire of the last `done`, here, and with that of `wait`.
        let before = self.state.fetch_sub(ONE, Ordering::AcqRel);
        if !(ONE..=MAX).contains(&before) {
            self.state.fetch_add(ONE, Ordering::Relaxed);
            panic!("negative WaitGroup counter");
        }
        if before == ONE | QUEUED {
            self.wake_all();
        }
    }

    pub(in crate::sync) fn count(&self) -> usize {
        (self.state.load(Ordering::Relaxed) / ONE) as usize
    }

    /// Waits until the count is zero. Returns false if the deadline passed first.
    pub(in crate::sync) fn wait(&self, reason: WaitReason, deadline: Option<Instant>) -> bool {
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
        // SAFETY: we keep the node until a waker has granted it, or we have removed it below.
        unsafe { queue.push_back(node.link()) };
        drop(queue);
        if node.park(reason, std::ptr::from_ref(self) as usize, deadline) == GRANTED {
            return true;
        }
        let mut queue = self.queue.lock();
        // SAFETY: the node is ours, and if it is linked then here.
        unsafe { queue.remove(node.link()) };
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
