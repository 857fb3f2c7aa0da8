//! Models of the parts of `sched/park/` that channels and locks use. A deadline may pass at any moment: a
//! wait with a deadline times out unless a waker was faster, and loom tries both.

#[path = "../../../../src/sched/park/channel_op.rs"]
pub(crate) mod channel_op;
#[path = "../../../../src/sched/park/wait_queue.rs"]
pub(crate) mod wait_queue;

pub(crate) mod park_ready {
    use crate::sched::types::waiter;
    use crate::sched::word::status::WaitReason;

    pub(crate) fn park(_: WaitReason, _: usize) {
        waiter::park();
    }
}

pub(crate) mod clock {
    use std::time::{Duration, Instant};

    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    pub(crate) fn after(wait: Duration) -> Option<Instant> {
        now().checked_add(wait)
    }
}

pub(crate) mod limit {
    //! The models have no contexts, because the end of a context is like one more deadline.

    use std::time::Instant;

    use super::wait::Wait;
    use crate::sched::word::status::WaitReason;

    pub(crate) fn park_until(
        wait: &Wait,
        reason: WaitReason,
        object: usize,
        deadline: Option<Instant>,
    ) -> usize {
        wait.park_until(reason, object, deadline)
    }

    pub(crate) fn is_over() -> bool {
        false
    }

    pub(crate) fn suspend() {}
}

pub(crate) mod wait {
    use std::time::Instant;

    use super::park_ready::park;
    use crate::base::atomic::{AtomicUsize, Ordering};
    use crate::sched::types::waiter::Waiter;
    use crate::sched::word::status::WaitReason;

    pub(crate) const UNCLAIMED: usize = 0;
    pub(crate) const TIMED_OUT: usize = 1;
    pub(crate) const FIRST_FREE_CLAIM: usize = 2;

    pub(crate) struct Wait {
        claim: AtomicUsize,
        waiter: Waiter,
    }

    impl Wait {
        pub(crate) fn new() -> Wait {
            Wait::of(Waiter::current())
        }

        pub(crate) fn of(waiter: Waiter) -> Wait {
            Wait { claim: AtomicUsize::new(UNCLAIMED), waiter }
        }

        pub(crate) fn waiter(&self) -> Waiter {
            self.waiter
        }

        pub(crate) fn try_claim(&self, claim: usize) -> bool {
            self.claim.compare_exchange(UNCLAIMED, claim, Ordering::AcqRel, Ordering::Acquire).is_ok()
        }

        pub(crate) fn claim(&self) -> usize {
            self.claim.load(Ordering::Acquire)
        }

        pub(crate) fn park_until(
            &self,
            reason: WaitReason,
            object: usize,
            deadline: Option<Instant>,
        ) -> usize {
            if deadline.is_none() || !self.try_claim(TIMED_OUT) {
                park(reason, object);
            }
            self.claim()
        }
    }

    /// As in gort.
    pub(crate) struct WaitPlace {
        pub(crate) object: usize,
        pub(crate) node: usize,
    }

    impl WaitPlace {
        pub(crate) fn address(&self) -> usize {
            std::ptr::from_ref(self) as usize
        }
    }
}
