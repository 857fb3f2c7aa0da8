//! How a channel operation uses the runtime: it looks into a queue, and then wakes a waiter or parks.
//!
//! A goroutine enters the runtime once for all of that ([`Outermost`]): the operation itself takes some 50
//! instructions, and every entry, which has to find the calling goroutine, a dozen more. A foreign thread has
//! nothing to enter. Code that cannot stay inside, because it may spin or run user code, enters at each step
//! ([`Stepwise`]).

use super::park_ready::park;
use crate::sched::run::runtime_section::{self, Outermost};
use crate::sched::types::waiter::Waiter;
use crate::sched::word::status::WaitReason;

/// The caller of a channel operation. While it is inside, it takes locks with `lock_inside`.
pub(crate) trait Caller {
    /// The goroutine or thread that calls.
    fn waiter(&self) -> Waiter;

    /// Ends the wait of `other`, as [`Waiter::ready`], and leaves the runtime. The caller holds no lock.
    fn ready(self, other: Waiter);

    /// Leaves the runtime by waiting, as [`park`]. No lock is held.
    fn park(self, reason: WaitReason, object: usize);
}

/// A caller that is outside of the runtime between the steps: any goroutine or thread.
#[derive(Clone, Copy)]
pub(crate) struct Stepwise(Waiter);

impl Stepwise {
    /// The caller. It must be made before a lock is taken, because the first one of a thread allocates.
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

/// Proof that the caller stays inside the runtime during an operation of several steps; functions that rely
/// on that take it as an argument. (A foreign thread has nothing to be inside of.)
pub(crate) struct Inside(Option<Outermost>);

impl Inside {
    #[inline(always)]
    pub(crate) fn enter() -> Inside {
        Inside(runtime_section::enter_from_user_code())
    }

    /// Leaves the runtime while `f` runs. The caller holds no lock.
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
