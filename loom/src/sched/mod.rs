//! gort's `sched`: the library's own files, except those that park a thread, which are stand-ins.

#[path = "../../../src/sched/idle_protocol.rs"]
pub(crate) mod idle_protocol;
#[path = "../../../src/sched/platform.rs"]
pub(crate) mod platform;
#[path = "../../../src/sched/schedt.rs"]
pub(crate) mod schedt;

/// Models write no event logs.
pub(crate) mod event {
    pub(crate) fn is_on() -> bool {
        false
    }

    pub(crate) fn records_waits() -> bool {
        false
    }

    pub(crate) fn stolen(_m: u32, _p: u32) {}

    pub(crate) fn measures_waits() -> bool {
        false
    }

    pub(crate) fn profiles_waits() -> bool {
        false
    }

    pub(crate) struct Whereabouts;

    #[expect(dead_code, reason = "models profile no waits")]
    #[derive(Clone, Copy)]
    pub(crate) enum Waker<'a> {
        Goroutine(&'a Whereabouts),
        Thread,
        Runtime,
    }

    pub(crate) static EVENTS: Events = Events { latency: LatencyWatch };

    pub(crate) struct Events {
        pub(crate) latency: LatencyWatch,
    }

    pub(crate) struct LatencyWatch;

    impl LatencyWatch {
        pub(crate) fn is_on(&self) -> bool {
            false
        }

        pub(crate) fn see(&self, _since: u64, _now: u64) {}
    }

    pub(crate) mod log {
        use super::Whereabouts;

        pub(crate) struct Log;

        impl Log {
            pub(crate) const fn new(_number: u32) -> Log {
                Log
            }

            pub(crate) fn proc_started(&self, _p: u32) {}
            pub(crate) fn proc_stopped(&self, _p: u32) {}
            pub(crate) fn call_began(&self, _g: u64) {}
            pub(crate) fn call_ended(&self, _g: u64) {}
            pub(crate) fn call_ended_with_new_p(&self, _g: u64, _p: u32) {}
            pub(crate) fn unblocked(&self, _g: u64) -> u64 {
                0
            }
            pub(crate) fn unblocked_by(&self, _g: u64, _place: &Whereabouts) -> u64 {
                0
            }
        }
    }
}

#[path = "."]
pub(crate) mod account {
    #[path = "../../../src/sched/account/cpu_time.rs"]
    pub(crate) mod cpu_time;
    #[path = "../../../src/sched/account/label_times.rs"]
    pub(crate) mod label_times;
    #[path = "../../../src/sched/account/labels.rs"]
    pub(crate) mod labels;
}

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
    #[path = "../../../src/sched/queue/fork_deque.rs"]
    pub(crate) mod fork_deque;
    #[path = "../../../src/sched/queue/fork_table.rs"]
    pub(crate) mod fork_table;
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
        use crate::sched::types::waiter::Waiter;
        use crate::sched::word::status::WaitReason;

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
    #[path = "../../../src/sched/types/wait_times.rs"]
    pub(crate) mod wait_times;
    #[path = "types/waiter.rs"]
    pub(crate) mod waiter;
}

#[path = "."]
pub(crate) mod word {
    #[path = "../../../src/sched/word/future_word.rs"]
    pub(crate) mod future_word;
    #[path = "../../../src/sched/word/park_word.rs"]
    pub(crate) mod park_word;
    #[path = "../../../src/sched/word/status.rs"]
    pub(crate) mod status;
    #[path = "../../../src/sched/word/unmarked_call.rs"]
    pub(crate) mod unmarked_call;

    /// No reports read in models.
    pub(crate) mod pinned_readers {
        pub(crate) fn let_them_finish() {}
    }
}
