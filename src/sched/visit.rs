//! What an operation of a channel wants of the runtime: look into a queue, and then wake somebody or stop.
//!
//! A goroutine enters the runtime once for all of that (`Outermost`, `park.rs`): the operation itself is some 50 instructions, and
//! every entry, with the question who calls, a dozen more. A foreign thread has nothing to enter, and code that cannot stay
//! inside (it may spin, or run what belongs to others) enters at each step ([`Stepwise`]).

use super::reason::WaitReason;
use super::section::{self, Outermost};
use super::waiter::{self, Waiter};

/// Who visits the runtime. Locks are taken with `lock_inside` meanwhile.
pub(crate) trait Visit {
    /// The visitor.
    fn waiter(&self) -> Waiter;

    /// Ends the visit with the wait of another, as [`Waiter::ready`]. No lock is held.
    fn ready(self, other: Waiter);

    /// Ends the visit by waiting, as [`waiter::park`]. No lock is held.
    fn park(self, reason: WaitReason, object: usize);
}

/// Somebody who is outside of the runtime between the steps: anybody.
#[derive(Clone, Copy)]
pub(crate) struct Stepwise(Waiter);

impl Stepwise {
    /// The caller. To be made before a lock is taken: the first of a thread allocates.
    #[inline]
    pub(crate) fn new() -> Stepwise {
        Stepwise(Waiter::current())
    }
}

impl Visit for Stepwise {
    #[inline]
    fn waiter(&self) -> Waiter {
        self.0
    }

    #[inline]
    fn ready(self, other: Waiter) {
        other.ready();
    }

    #[inline]
    fn park(self, reason: WaitReason, object: usize) {
        waiter::park(reason, object);
    }
}

/// A visit of several steps: the caller stays inside, and what needs that gets this as the proof. (Foreign threads have
/// nothing to be inside of.)
pub(crate) struct Inside(Option<Outermost>);

impl Inside {
    #[inline(always)]
    pub(crate) fn enter() -> Inside {
        Inside(section::visit())
    }

    /// Does something outside in between. No lock is held.
    #[cold]
    pub(crate) fn outside(&mut self, f: impl FnOnce()) {
        self.0 = None;
        f();
        self.0 = section::visit();
    }

    /// Ends the visit by waiting, as [`waiter::park`]. No lock is held.
    #[inline(always)]
    pub(crate) fn park(self, reason: WaitReason, object: usize) {
        match self.0 {
            Some(visit) => visit.park(reason, object),
            None => waiter::park(reason, object),
        }
    }
}
