//! What channels use of the scheduler, modelled: a lock, and threads that wait.

pub(crate) mod lock;
#[path = "../../../../src/sched/reason.rs"]
pub(crate) mod reason;
pub(crate) mod section;
#[path = "../../../../src/sched/visit.rs"]
pub(crate) mod visit;
pub(crate) mod waiter;
