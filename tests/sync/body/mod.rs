//! The tests, one file for each type of `gort::sync`. The module that includes this one says what `test`,
//! `spawn`, `scope`, `sleep` and `yield_now` are.

use super::{scope, sleep, spawn, test, yield_now};

mod barrier;
mod condvar;
mod lazy_lock;
mod mutex;
mod once;
mod once_lock;
mod pool;
mod rwlock;
mod semaphore;
mod singleflight;
mod wait_group;
