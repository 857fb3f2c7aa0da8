//! What only an inside view can test: who is queued, which bits are left. The behaviour that users see is
//! tested in `tests/sync/`.

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

/// Waits until the condition holds.
#[track_caller]
fn eventually(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "the condition never came true");
        std::thread::yield_now();
    }
}
