//! One way to wait. Everything that blocks, be it a channel, a lock, a join or a sleep, goes through
//! [`park`] and a [`Waiter`]; they differ only in their queues.
//!
//! The protocol, for goroutines and foreign threads alike:
//! 1. The waiter takes `Waiter::current()`, publishes it (in a queue, under that queue's lock), releases
//!    the lock, and calls `park`.
//! 2. Whoever ends the wait removes the waiter from the queue and calls `ready` **exactly once** for that
//!    publication. `ready` may come before `park`: then `park` returns at once. Because the waiter cannot
//!    return from `park` before that `ready`, what it published may live on its stack, as long as the waker
//!    touches it only before it calls `ready`.
//! 3. A wait that several parties may end (timeouts, select, contexts) puts a [`Wait`] between them: the
//!    first to claim it, and nobody else, calls `ready`.

use std::time::Instant;

use crate::atomic::{AtomicUsize, Ordering};
use crate::sched::note::Note;
use crate::sched::reason::WaitReason;

/// A goroutine or a foreign thread that waits or is about to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter(usize);

impl Waiter {
    /// The caller itself. Stays valid for the whole life of the goroutine or thread.
    pub(crate) fn current() -> Waiter {
        Waiter(std::ptr::from_ref(foreign_note()) as usize)
    }

    /// Ends the wait. Exactly one call for each park. Never blocks, allocates nothing.
    pub(crate) fn ready(self) {
        // SAFETY: Notes of foreign threads are never freed.
        unsafe { (*(self.0 as *const Note)).set() }
    }
}

fn foreign_note() -> &'static Note {
    thread_local!(static NOTE: &'static Note = Box::leak(Box::new(Note::new())));
    NOTE.with(|n| *n)
}

/// Blocks the caller until somebody calls `ready` on its [`Waiter`]. `object` is the address of what it
/// waits for (the channel, the lock), for the reports.
pub(crate) fn park(reason: WaitReason, object: usize) {
    let _ = (reason, object);
    foreign_note().wait();
}

/// As [`park`], but wakes up by itself at `deadline`. The caller must resolve the race between the two (see
/// [`Wait::park_until`], the only user).
fn park_until(reason: WaitReason, object: usize, deadline: Instant, wait: &Wait) {
    let _ = (reason, object);
    if !foreign_note().wait_until(Some(deadline)) {
        if wait.try_claim(TIMED_OUT) {
            return;
        }
        foreign_note().wait();
    }
}

/// The claim of a wait that nobody has ended yet.
pub(crate) const UNCLAIMED: usize = 0;
/// The claim of a deadline.
pub(crate) const TIMED_OUT: usize = 1;
/// Other claims are chosen by the users of [`Wait`], from this on.
pub(crate) const FIRST_FREE_CLAIM: usize = 2;

/// One wait that several parties may end: senders of different channels, a deadline, a cancelled context.
/// Lives on the waiter's stack. Others may touch it only while they can be sure that the waiter is still
/// there: under the lock of a queue that the waiter takes again before it returns (to remove its entry), or
/// between a successful `try_claim` and the `ready` that follows it.
pub(crate) struct Wait {
    claim: AtomicUsize,
    waiter: Waiter,
}

impl Wait {
    /// A new wait of the caller.
    pub(crate) fn new() -> Wait {
        Wait { claim: AtomicUsize::new(UNCLAIMED), waiter: Waiter::current() }
    }

    /// Who waits.
    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }

    /// Tries to be the one that ends this wait, with a claim other than `UNCLAIMED`. Whoever gets `true` must
    /// call `self.waiter().ready()` (copy the waiter out first), unless it is the waiter itself.
    #[must_use]
    pub(crate) fn try_claim(&self, claim: usize) -> bool {
        debug_assert_ne!(claim, UNCLAIMED);
        // AcqRel: the claimer's writes before are seen by the waiter, and the reverse.
        self.claim.compare_exchange(UNCLAIMED, claim, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The current claim, without waiting.
    pub(crate) fn claim(&self) -> usize {
        self.claim.load(Ordering::Acquire)
    }

    /// Parks until somebody claimed this wait and called ready, or the deadline has passed and claimed it
    /// with `TIMED_OUT`. Returns the claim.
    pub(crate) fn park_until(&self, reason: WaitReason, object: usize, deadline: Option<Instant>) -> usize {
        match deadline {
            None => park(reason, object),
            Some(deadline) => park_until(reason, object, deadline, self),
        }
        self.claim()
    }
}
