//! std with its threads replaced by goroutines and, in [`gort_sync`], its locks and channels by gort's.

pub use std::*;

#[cfg(feature = "gort")]
pub mod gort_sync;
#[cfg(feature = "gort")]
pub mod net_names;
#[cfg(feature = "gort")]
pub mod sys_common;
#[cfg(feature = "gort")]
pub mod thread;

/// Runs the body of a test in a goroutine if the feature `gort` is on.
pub fn run_test(body: fn()) {
    #[cfg(feature = "transparent")]
    gort::transparent::enable().expect("this program is linked as usual");
    #[cfg(feature = "gort")]
    gort::run(body);
    #[cfg(not(feature = "gort"))]
    body();
}

/// Panics if a test returned an error, as the test harness does.
pub fn must_succeed(result: impl process::Termination) {
    assert_eq!(result.report(), process::ExitCode::SUCCESS, "the test returned an error");
}
