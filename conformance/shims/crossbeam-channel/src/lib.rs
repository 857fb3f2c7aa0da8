//! gort's channels under the name `crossbeam_channel`.

pub use gort::chan::*;

/// One of the foreign test files uses this internal macro of `select!` directly.
#[macro_export]
macro_rules! crossbeam_channel_internal {
    ($($tokens:tt)*) => { $crate::select! { $($tokens)* } };
}
