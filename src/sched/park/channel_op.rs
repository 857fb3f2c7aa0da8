//! What an operation of a channel wants of the runtime: look into a queue, and then wake a waiter or stop.
//!
//! A goroutine enters the runtime once for all of that ([`Outermost`]): the operation itself is some 50
//! instructions, and every entry, with the question who calls, a dozen more. A foreign thread has nothing to
//! enter, and code that cannot stay inside (it may spin, or run user code) enters at each step
//! ([`Stepwise`]).

use super::park_ready::park;
use crate::sched::run::runtime_section::{self, Outermost};
use crate::sched::types::wait_reason::WaitReason;
use crate::sched::types::waiter::Waiter;

/// The caller of a channel operation. While it is inside, it takes locks with `lock_inside`.
pub(crate) trait Caller {
    /// The goroutine or thread.
    fn waiter(&self) -> Waiter;

    /// Leaves the runtime by ending the wait of another, as [`Waiter::ready`]. No lock is held.
    fn ready(self, other: Waiter);

    /// Leaves the runtime by waiting, as [`park`]. No lock is held.
    fn park(self, reason: WaitReason, object: usize);
}

/// A caller that is outside of the runtime between the steps: anybody.
#[derive(Clone, Copy)]
pub(crate) struct Stepwise(Waiter);

impl Stepwise {
    /// The caller. To be made before a lock is taken: the first of a thread allocates.
    #[inline]
    pub(crate) fn new() -> Stepwise {
        Stepwise(Waiter::current())
    }
}

impl Caller for Stepwise {
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
        park(reason, object);
    }
}

/// An operation of several steps: the caller stays inside, and what needs that gets this as the proof.
/// (Foreign threads have nothing to be inside of.)
pub(crate) struct Inside(Option<Outermost>);

impl Inside {
    #[inline(always)]
    pub(crate) fn enter() -> Inside {
        Inside(runtime_section::enter_from_user_code())
    }

    /// Leaves the runtime for the time of `f`. No lock is held.
    #[cold]
    pub(crate) fn outside(&mut self, f: impl FnOnce()) {
        self.0 = None;
        f();
        self.0 = runtime_section::enter_from_user_code();
    }

    /// Leaves the runtime by waiting, as [`park`]. No lock is held.
    #[inline(always)]
    pub(crate) fn park(self, reason: WaitReason, object: usize) {
        match self.0 {
            Some(caller) => caller.park(reason, object),
            None => park(reason, object),
        }
    }
}
