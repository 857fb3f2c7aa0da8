//! Models of gort's lock-free parts, checked by loom: `cargo test -p gort-loom --release`.
//!
//! The files under test are gort's own, included by path; they take their atomics from `crate::atomic`, which
//! here has loom's. Loom runs each model again and again until it has seen every order of the steps (with a bound
//! on preemptions where that would take too long), and every value that a weakly ordered load may return.

// What the models do not use of the included files.
#![allow(dead_code, unreachable_pub)]

mod atomic;

#[path = "../../src/sched/brisk.rs"]
mod brisk;
#[path = "../../src/goroutine/joinword.rs"]
mod joinword;
#[path = "../../src/sched/parkword.rs"]
mod parkword;
#[path = "../../src/sched/runq.rs"]
mod runq;
#[path = "../../src/sched/sleep.rs"]
mod sleep;
#[path = "../../src/future/taskword.rs"]
mod taskword;

pub mod models;
