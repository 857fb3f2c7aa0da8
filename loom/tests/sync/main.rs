//! Models of `gort::sync`: the same source files as the library's, over loom's atomics. What parks and what
//! reads the clock is replaced (see `sched.rs` and `sync.rs` here): a wait with a deadline races it at once
//! against its wakers, so every order of the two is seen.
//!
//! Runs in seconds with `cargo test --release -p gort-loom`.

#![allow(unreachable_pub, reason = "the included files are public in gort")]

mod atomic;
mod context;
mod sched;
mod sync;
