//! std with its threads replaced by goroutines.

pub use std::*;

/// `std::thread`, as far as the foreign tests use it.
#[cfg(feature = "gort")]
pub mod thread {
    pub use gort::{current, scope, sleep, spawn, yield_now, Builder, JoinHandle, Scope, ScopedJoinHandle};
    pub use std::thread::{panicking, AccessError, LocalKey, Result};
}

/// Runs the body of a test where it belongs.
pub fn run_test(body: fn()) {
    #[cfg(feature = "gort")]
    gort::run(body);
    #[cfg(not(feature = "gort"))]
    body();
}
