//! What the tests share.

use std::time::{Duration, Instant};

/// Far longer than anything here takes: only a test that would hang gets there.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "the condition never came true");
        gort::yield_now();
    }
}

/// Runs `f`, which is to panic, and gives the message.
#[track_caller]
pub(crate) fn panic_message(f: impl FnOnce()) -> String {
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).expect_err("it did not panic");
    match payload.downcast_ref::<&str>() {
        Some(text) => (*text).to_owned(),
        None => payload.downcast_ref::<String>().cloned().unwrap_or_default(),
    }
}
