//! Stand-ins for the scheduler, with the interface and the rules of the real ones.

#[path = "../../../src/sched/reason.rs"]
#[allow(dead_code)]
pub(crate) mod reason;

pub(crate) mod lock {
    //! The runtime lock, as loom's mutex.

    pub(crate) struct Lock<T>(loom::sync::Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Lock<T> {
            Lock(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("nobody panics under a runtime lock")
        }
    }
}

pub(crate) mod waiter {
    //! Waiting, as loom's park and unpark.

    use std::time::Instant;

    use super::reason::WaitReason;
    use crate::atomic::{AtomicUsize, Ordering};

    /// Points to a leaked thread handle: handles are small, and waiters must be `Copy` and outlive waits.
    #[derive(Clone, Copy)]
    pub(crate) struct Waiter(&'static loom::thread::Thread);

    impl Waiter {
        pub(crate) fn current() -> Waiter {
            Waiter(Box::leak(Box::new(loom::thread::current())))
        }

        pub(crate) fn ready(self) {
            self.0.unpark();
        }
    }

    /// As in gort.
    #[allow(dead_code, reason = "for reports")]
    pub(crate) struct Place {
        pub(crate) object: usize,
        pub(crate) node: usize,
    }

    impl Place {
        pub(crate) fn address(&self) -> usize {
            std::ptr::from_ref(self) as usize
        }
    }

    pub(crate) const UNCLAIMED: usize = 0;
    pub(crate) const TIMED_OUT: usize = 1;
    pub(crate) const FIRST_FREE_CLAIM: usize = 2;

    pub(crate) struct Wait {
        claim: AtomicUsize,
        waiter: Waiter,
    }

    impl Wait {
        pub(crate) fn new() -> Wait {
            Wait { claim: AtomicUsize::new(UNCLAIMED), waiter: Waiter::current() }
        }

        pub(crate) fn claim(&self) -> usize {
            self.claim.load(Ordering::Acquire)
        }

        pub(crate) fn waiter(&self) -> Waiter {
            self.waiter
        }

        pub(crate) fn try_claim(&self, claim: usize) -> bool {
            self.claim.compare_exchange(UNCLAIMED, claim, Ordering::AcqRel, Ordering::Acquire).is_ok()
        }

        /// A deadline passes at once: it races with the wakers.
        pub(crate) fn park_until(
            &self,
            _reason: WaitReason,
            _object: usize,
            deadline: Option<Instant>,
        ) -> usize {
            if deadline.is_none() || !self.try_claim(TIMED_OUT) {
                loom::thread::park();
            }
            self.claim.load(Ordering::Acquire)
        }
    }
}
