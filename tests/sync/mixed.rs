//! The tests themselves are OS threads, what they start are goroutines.

pub(crate) use gort::{scope, sleep, spawn, yield_now};
pub(crate) use std::prelude::v1::test;

#[path = "barrier.rs"]
mod barrier;
#[path = "condvar.rs"]
mod condvar;
#[path = "lazy_lock.rs"]
mod lazy_lock;
#[path = "mutex.rs"]
mod mutex;
#[path = "once.rs"]
mod once;
#[path = "once_lock.rs"]
mod once_lock;
#[path = "pool.rs"]
mod pool;
#[path = "rwlock.rs"]
mod rwlock;
#[path = "semaphore.rs"]
mod semaphore;
#[path = "singleflight.rs"]
mod singleflight;
#[path = "wait_group.rs"]
mod wait_group;
