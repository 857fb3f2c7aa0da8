//! Tests that need access to the internals: which waiters are queued, which bits are left. `tests/sync/`
//! tests the behaviour that users see.

use std::time::{Duration, Instant};

mod condvar;
mod group;
mod holder;
mod mutex;
mod rwlock;
mod semaphore;
mod singleflight;
mod wait_group;
mod waitq;

/// Waits until the condition holds. Panics after a minute.
#[track_caller]
fn eventually(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "the condition never came true");
        std::thread::yield_now();
    }
}
