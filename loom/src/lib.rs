//! Loom models: the lock-free files of gort, included as they are, over loom's atomics. Here are modules of the
//! same names for what those files build on.
//!
//! ```text
//! cargo test -p gort-loom --release
//! ```

#![cfg(test)]
#![allow(dead_code)]

mod atomic;
mod chan;
mod sched;
