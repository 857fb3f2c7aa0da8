//! What channels use of the scheduler, modelled: a lock, and threads that wait.

pub(crate) mod lock;
#[path = "../../../../src/sched/reason.rs"]
pub(crate) mod reason;
pub(crate) mod waiter;
