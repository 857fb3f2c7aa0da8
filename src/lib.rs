//! Goroutines for Rust: the Go scheduler as a library.

#![allow(dead_code)]

mod atomic;
mod goroutine;
pub mod runtime;
mod sched;
mod stack;
mod sys;
mod tls;

pub use goroutine::{
    Builder, Goroutine, JoinHandle, Scope, ScopedJoinHandle, current, run, scope, spawn, yield_now,
};

pub use gort_macros::{main, test};
