//! Where a future tells whoever polls it, a goroutine or a foreign thread, to look again.
//!
//! IDLE → NOTIFIED (a waker was called), IDLE → WAITING (nothing to do: it parks) → NOTIFIED (a waker
//! was called, and readies it), NOTIFIED → IDLE (it polls). Only the owner goes to WAITING or IDLE, so
//! whoever finds WAITING and replaces it is the only one to call `ready`, once for each park.
//!
//! Wake-up: the owner parks only after it changed IDLE to WAITING, hence with no call since its last poll
//! began; a later one finds WAITING.
//!
//! The word belongs to the goroutine's slot or the thread's record, neither of which is ever freed. So a
//! waker is just their address: it needs no count, and one that is called too late makes its target, or the
//! next goroutine in that slot, poll once in vain.

use std::sync::atomic::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const NOTIFIED: u8 = 1;
const WAITING: u8 = 2;

pub(crate) struct FutureWord(AtomicU8);

impl FutureWord {
    pub(crate) fn new() -> FutureWord {
        FutureWord(AtomicU8::new(IDLE))
    }

    /// A waker was called. True: the owner waits, and must be readied by the caller.
    #[must_use]
    pub(crate) fn notify(&self) -> bool {
        // AcqRel: the owner's next poll sees what came before this, and we see that it has published its
        // wait.
        self.0.swap(NOTIFIED, Ordering::AcqRel) == WAITING
    }

    /// The owner is about to poll: calls from now on count. True: a waker was called since the last poll.
    pub(crate) fn begin_poll(&self) -> bool {
        // A swap: it acquires what the callers of wakers did before.
        self.0.swap(IDLE, Ordering::AcqRel) != IDLE
    }

    /// The poll came to nothing. True: the owner must park; somebody will ready it, once.
    #[must_use]
    pub(crate) fn begin_wait(&self) -> bool {
        // Release: whoever finds WAITING sees that the owner has published all it had to.
        self.0.compare_exchange(IDLE, WAITING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The owner is done, and has taken calls of wakers. If it was inside the poll of another future, some of
    /// them may have been meant for that one: it has to be polled again.
    pub(crate) fn pass_on(&self) {
        self.0.store(NOTIFIED, Ordering::Release);
    }
}
