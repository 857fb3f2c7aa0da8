//! The locks without their data: state words, queues of waiters and the protocols between them. The public
//! types of `sync` wrap these; the loom models run them as they are.

pub(in crate::sync) mod condvar;
pub(in crate::sync) mod mutex;
pub(in crate::sync) mod rwlock;
pub(in crate::sync) mod rwlock_grant;
mod rwlock_wait;
pub(in crate::sync) mod semaphore;
mod spin;
mod starvation;
pub(in crate::sync) mod wait_group;
pub(crate) mod waitq;
