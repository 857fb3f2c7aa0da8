//! The queues of runnable goroutines. They hold pointers and never dereference them, so that tests and models
//! can fill them with anything.

pub(crate) mod deferred_wake;
pub(crate) mod fork_deque;
pub(crate) mod fork_table;
pub(crate) mod global_queue;
pub(crate) mod histogram;
pub(crate) mod latency_sampler;
pub(crate) mod preempted_queue;
pub(crate) mod runq;
