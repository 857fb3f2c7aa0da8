//! Goroutines for Rust: the Go scheduler as a library.

mod atomic;
mod sched;
mod sys;

pub mod chan;
