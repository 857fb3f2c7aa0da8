//! The word through which a goroutine stops and is started again.
//!
//! | state    | meaning                                            | who owns the stack          |
//! |----------|----------------------------------------------------|-----------------------------|
//! | EMPTY    | running, or runnable                               | the M that runs it, a queue |
//! | NOTIFIED | readied before it had stopped                      | the M that runs it          |
//! | PARKED   | stopped; the context is saved                      | who readies or holds it     |
//! | HELD     | stopped; a report or the shrinker uses its stack   | the holder                  |
//!
//! Transitions: `commit` EMPTY → PARKED on g0, after the context is saved; `notify` from any state, once
//! for each park. Because `notify` is one swap, exactly one side sees the other: either `commit` comes first
//! and `notify` returns true (the caller makes it runnable), or `notify` comes first and `commit` returns
//! false (the M runs it on). `notify` and `release` exclude each other in the same way.

use crate::base::atomic::{AtomicU32, Ordering};

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;
const HELD: u32 = 3;

pub(crate) struct ParkWord(AtomicU32);

impl ParkWord {
    pub(crate) fn new() -> ParkWord {
        ParkWord(AtomicU32::new(EMPTY))
    }

    /// Called by the goroutine itself: takes a notification that is already there. False: it has to stop.
    #[inline]
    #[must_use]
    pub(crate) fn take_notification(&self) -> bool {
        // Acquire pairs with the release half of the swap in `notify`.
        self.0.load(Ordering::Relaxed) == NOTIFIED
            && self.0.compare_exchange(NOTIFIED, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Called on g0 after the goroutine's context was saved. True: it is parked and no longer belongs to the
    /// caller. False: it was notified meanwhile, the notification is taken, and it runs on.
    #[inline]
    #[must_use]
    pub(crate) fn commit(&self) -> bool {
        // Release: the waker or holder sees the saved context. Acquire: pairs with `notify`.
        match self.0.compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(_) => {
                self.0.store(EMPTY, Ordering::Relaxed);
                false
            }
        }
    }

    /// Ends the wait. True: the goroutine was parked and now belongs to the caller, which must make it
    /// runnable.
    #[inline]
    #[must_use]
    pub(crate) fn notify(&self) -> bool {
        // AcqRel: takes over the saved context, and hands over what the waker did.
        match self.0.swap(NOTIFIED, Ordering::AcqRel) {
            PARKED => {
                self.0.store(EMPTY, Ordering::Relaxed);
                true
            }
            before => {
                debug_assert_ne!(before, NOTIFIED, "a goroutine was readied twice for one park");
                false
            }
        }
    }

    /// Takes hold of a parked goroutine without ending its wait.
    #[must_use]
    pub(crate) fn hold(&self) -> bool {
        // Acquire pairs with `commit`: the saved context is visible.
        self.0.compare_exchange(PARKED, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Lets go of it. True: it was notified meanwhile, belongs to the caller and must be made runnable.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        // Release: what the holder did is seen by the next owner. Acquire: pairs with `notify`.
        match self.0.compare_exchange(HELD, PARKED, Ordering::Release, Ordering::Acquire) {
            Ok(_) => false,
            Err(_) => {
                self.0.store(EMPTY, Ordering::Relaxed);
                true
            }
        }
    }

    /// For reports.
    pub(crate) fn is_parked(&self) -> bool {
        matches!(self.0.load(Ordering::Relaxed), PARKED | HELD)
    }
}
