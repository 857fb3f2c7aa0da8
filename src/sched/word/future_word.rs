//! The word through which the waker of a future tells the goroutine or foreign thread that polls it to poll
//! again.
//!
//! | transition         | made by                                              |
//! |--------------------|------------------------------------------------------|
//! | IDLE → NOTIFIED    | a waker                                              |
//! | IDLE → WAITING     | the owner: the poll was pending, and it parks        |
//! | WAITING → NOTIFIED | a waker, which then readies the owner                |
//! | NOTIFIED → IDLE    | the owner, which then polls                          |
//!
//! The owner is the goroutine or thread that polls. Only the owner sets WAITING and IDLE, so the one waker
//! that replaces WAITING is the only one to call `ready`, once for each park.
//!
//! No wake-up is lost: the owner parks only after it changed IDLE to WAITING, so no waker was called since
//! its last poll began; and a waker that is called later finds WAITING.
//!
//! The word belongs to the goroutine's slot or the thread's record, neither of which is ever freed. So a
//! waker is just an address and needs no reference count. A waker that is called too late makes its target,
//! or the next goroutine in that slot, poll once in vain.

use std::sync::atomic::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const NOTIFIED: u8 = 1;
const WAITING: u8 = 2;

pub(crate) struct FutureWord(AtomicU8);

impl FutureWord {
    pub(crate) fn new() -> FutureWord {
        FutureWord(AtomicU8::new(IDLE))
    }

    /// A waker was called. True: the owner waits, and the caller must ready it.
    #[must_use]
    pub(crate) fn notify(&self) -> bool {
        // AcqRel: the owner's next poll sees what the waker did before, and the waker sees that the owner has
        // published its wait.
        self.0.swap(NOTIFIED, Ordering::AcqRel) == WAITING
    }

    /// The owner is about to poll: calls from now on count. True: a waker was called since the last poll.
    pub(crate) fn begin_poll(&self) -> bool {
        // A swap, because that also acquires what the callers of wakers did before.
        self.0.swap(IDLE, Ordering::AcqRel) != IDLE
    }

    /// The poll was pending. True: the owner must park; a waker will ready it, once.
    #[must_use]
    pub(crate) fn begin_wait(&self) -> bool {
        // Release: the waker that finds WAITING sees everything that the owner has published.
        self.0.compare_exchange(IDLE, WAITING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The owner is done with its future, and has consumed calls of wakers. If it was inside the poll of
    /// another future, some of those calls may have been meant for that one, which has to be polled again.
    pub(crate) fn pass_on(&self) {
        self.0.store(NOTIFIED, Ordering::Release);
    }
}
