//! Whether a task is to be polled.
//!
//! ```text
//! FREE ─assign─▶ READY ─begin─▶ RUNNING ─pause─▶ IDLE ─wake─▶ READY
//!                  ▲               │ wake
//!                  └────pause──── AGAIN          RUNNING, AGAIN ─end─▶ FREE
//! ```
//!
//! - T1. In READY the task is in the crew's queue, once: whoever goes there puts it in.
//! - T2. In RUNNING and AGAIN its future belongs to the goroutine that polls it; nobody else leaves these states.
//! - T3. A call of a waker is followed by the beginning of a poll, unless the task has ended: it finds IDLE and queues it, or
//!   READY, or leaves AGAIN, with which `pause` queues it.
//!
//! A waker always writes the word, also when it leaves it as it is: the poll that follows acquires what came before that call.
//! Only a waker that comes after the end finds FREE, or makes the slot's next task be polled once in vain.

use crate::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const IDLE: u32 = 1;
const READY: u32 = 2;
const RUNNING: u32 = 3;
const AGAIN: u32 = 4;

pub(crate) struct TaskWord(AtomicU32);

impl TaskWord {
    pub(crate) fn new() -> TaskWord {
        TaskWord(AtomicU32::new(FREE))
    }

    /// The slot got a future. The caller queues it.
    pub(crate) fn assign(&self) {
        // Release: whoever polls sees the future.
        self.0.store(READY, Ordering::Release);
    }

    /// A waker was called. True: the caller queues the task.
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
            // Release: see above. Acquire: who queues it passes on what the last poll left.
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return seen == IDLE,
                Err(now) => seen = now,
            }
        }
    }

    /// It was taken out of the queue: calls from now on count anew.
    pub(crate) fn begin(&self) {
        let before = self.0.swap(RUNNING, Ordering::AcqRel);
        debug_assert_eq!(before, READY, "a task in the queue is ready");
    }

    /// The poll came to nothing. True: a waker was called meanwhile, and the caller queues the task.
    #[must_use]
    pub(crate) fn pause(&self) -> bool {
        if self.0.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return false;
        }
        // A swap, not a store: what the caller of the waker released goes on to `begin`.
        self.0.swap(READY, Ordering::AcqRel);
        true
    }

    /// The future is gone.
    pub(crate) fn end(&self) {
        self.0.store(FREE, Ordering::Release);
    }
}
