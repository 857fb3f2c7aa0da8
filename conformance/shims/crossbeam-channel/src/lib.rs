//! gort's channels under the name of `crossbeam_channel`.

pub use gort::chan::*;

/// One of the foreign files reaches behind `select!` for this.
#[macro_export]
macro_rules! crossbeam_channel_internal {
    ($($tokens:tt)*) => { $crate::select! { $($tokens)* } };
}
