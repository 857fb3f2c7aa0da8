//! Tests that need access to the internals: which waiters are queued, which bits are left. `tests/sync/`
//! tests the behaviour that users see.

mod condvar;
mod group;
mod holder;
mod mutex;
mod rwlock;
mod semaphore;
mod singleflight;
mod wait_group;
mod waitq;
