//! Goroutines for Rust: the Go scheduler as a library.

mod atomic;
mod sched;
pub mod sync;
mod sys;
