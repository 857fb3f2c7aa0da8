//! Goroutines for Rust: the Go scheduler as a library.

#![allow(dead_code)]
mod atomic;
mod sched;
mod sys;
mod tls;
