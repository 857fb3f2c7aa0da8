//! The state of a task of the crew: whether it is queued, being polled, or waiting for its waker.
//!
//! ```text
//! FREE ─assign─▶ READY ─begin─▶ RUNNING ─pause─▶ IDLE ─wake─▶ READY
//!                  ▲               │ wake
//!                  └────pause──── AGAIN          RUNNING, AGAIN ─end─▶ FREE
//! ```
//!
//! - T1. A READY task is in the crew's queue exactly once: the thread that changes the state to READY puts it
//!   there.
//! - T2. The future of a RUNNING or AGAIN task belongs to the goroutine that polls it. Only that goroutine
//!   ends these states.
//! - T3. Every call of a waker is followed by the beginning of a poll, unless the task has ended. The waker
//!   finds IDLE and queues the task; or it finds READY, so that the task is queued already; or it finds
//!   RUNNING or AGAIN and leaves AGAIN, so that `pause` queues the task.
//!
//! A waker always writes the word, even if the value stays the same. So the poll that follows acquires
//! everything that happened before the waker was called. A waker that is called after its task has ended
//! finds FREE and does nothing, or it causes one useless poll of the slot's next task.

use crate::base::atomic::{AtomicU32, Ordering};

/// The slot has no future.
const FREE: u32 = 0;
/// The future waits for its waker.
const IDLE: u32 = 1;
/// The task is in the crew's queue.
const READY: u32 = 2;
/// A goroutine of the crew polls the future.
const RUNNING: u32 = 3;
/// RUNNING, and the waker was called since the poll began: the task must be polled again.
const AGAIN: u32 = 4;

pub(crate) struct TaskWord(AtomicU32);

impl TaskWord {
    pub(crate) fn new() -> TaskWord {
        TaskWord(AtomicU32::new(FREE))
    }

    /// The slot has got a future. The caller must queue the task.
    pub(crate) fn assign(&self) {
        // Release: pairs with `begin`, so that the goroutine that polls sees the future.
        self.0.store(READY, Ordering::Release);
    }

    /// A waker was called. True: the caller must queue the task.
    #[must_use]
    pub(crate) fn wake(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let next = match seen {
                FREE => return false,
                IDLE => READY,
                RUNNING => AGAIN,
                other => other,
            };
            // Release: pairs with `begin`, so that the next poll sees what happened before this call.
            // Acquire: pairs with `pause`, so that the caller, which queues the task, passes on the effects
            // of the last poll.
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return seen == IDLE,
                Err(now) => seen = now,
            }
        }
    }

    /// The caller took the task from the queue and is about to poll it. Later calls of the waker cause
    /// another poll.
    pub(crate) fn begin(&self) {
        let before = self.0.swap(RUNNING, Ordering::AcqRel);
        debug_assert_eq!(before, READY, "a task in the queue is ready");
    }

    /// The poll returned `Pending`. True: a waker was called in the meantime, and the caller must queue the
    /// task.
    #[must_use]
    pub(crate) fn pause(&self) -> bool {
        if self.0.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return false;
        }
        // A swap, not a store: it acquires what the waker's caller released, and passes it on to `begin`.
        self.0.swap(READY, Ordering::AcqRel);
        true
    }

    /// The future was dropped: the slot is free.
    pub(crate) fn end(&self) {
        self.0.store(FREE, Ordering::Release);
    }
}
