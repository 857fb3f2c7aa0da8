//! gort's `sched`: the library's own files, except those that park a thread, which are stand-ins.

#[path = "../../../src/sched/idle_protocol.rs"]
pub(crate) mod idle_protocol;
#[path = "../../../src/sched/platform.rs"]
pub(crate) mod platform;
#[path = "../../../src/sched/schedt.rs"]
pub(crate) mod schedt;

#[path = "."]
pub(crate) mod idle {
    #[path = "../../../src/sched/idle/ready.rs"]
    pub(crate) mod ready;
    #[path = "../../../src/sched/idle/wake_p.rs"]
    pub(crate) mod wake_p;
}

pub(crate) mod park;

#[path = "."]
pub(crate) mod queue {
    #[path = "../../../src/sched/queue/deferred_wake.rs"]
    pub(crate) mod deferred_wake;
    #[path = "../../../src/sched/queue/global_queue.rs"]
    pub(crate) mod global_queue;
    #[path = "../../../src/sched/queue/histogram.rs"]
    pub(crate) mod histogram;
    #[path = "../../../src/sched/queue/latency_sampler.rs"]
    pub(crate) mod latency_sampler;
    #[path = "../../../src/sched/queue/preempted_queue.rs"]
    pub(crate) mod preempted_queue;
    #[path = "../../../src/sched/queue/runq.rs"]
    pub(crate) mod runq;
}

#[path = "."]
pub(crate) mod run {
    #[path = "../../../src/sched/run/find_runnable.rs"]
    pub(crate) mod find_runnable;
    #[path = "../../../src/sched/run/steal.rs"]
    pub(crate) mod steal;

    pub(crate) mod runtime_section {
        //! Threads of the models are foreign to the runtime: they have nothing to enter.

        use crate::base::lock::{Guard, Lock};
        use crate::sched::park::channel_op::Caller;
        use crate::sched::types::status::WaitReason;
        use crate::sched::types::waiter::Waiter;

        pub(crate) enum Outermost {}

        pub(crate) fn enter_from_user_code() -> Option<Outermost> {
            None
        }

        impl Caller for Outermost {
            fn waiter(&self) -> Waiter {
                match *self {}
            }

            fn ready(self, _: Waiter) {
                match self {}
            }

            fn park(self, _: WaitReason, _: usize) {
                match self {}
            }
        }

        /// The real one has a `Drop`, too.
        impl Drop for Outermost {
            fn drop(&mut self) {}
        }

        pub(crate) struct Entered;

        impl<T> Lock<T> {
            pub(crate) fn lock(&self) -> Guard<'_, T, Entered> {
                self.lock_with(Entered)
            }

            pub(crate) fn lock_from_user_code(&self) -> Guard<'_, T, Entered> {
                self.lock_with(Entered)
            }
        }
    }
}

#[path = "."]
pub(crate) mod types {
    #[path = "../../../src/sched/types/g.rs"]
    pub(crate) mod g;
    #[path = "../../../src/sched/types/m.rs"]
    pub(crate) mod m;
    #[path = "../../../src/sched/types/p.rs"]
    pub(crate) mod p;
    #[path = "../../../src/sched/types/status.rs"]
    pub(crate) mod status;
    #[path = "types/waiter.rs"]
    pub(crate) mod waiter;
}

#[path = "."]
pub(crate) mod word {
    #[path = "../../../src/sched/word/future_word.rs"]
    pub(crate) mod future_word;
    #[path = "../../../src/sched/word/park_word.rs"]
    pub(crate) mod park_word;
}
