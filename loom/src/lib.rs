//! Models of gort's lock-free parts, checked by loom: `cargo test -p gort-loom --release`.
//!
//! The files under test are gort's own, included by path. They take their atomics from `crate::base::atomic`,
//! which here are loom's. Loom runs each model again and again until it has seen every order of the steps
//! (with a bound on preemptions where that would take too long), and every value that a weakly ordered load
//! may return.
//!
//! The module tree is gort's. The stand-ins for threads that wait, clocks and memory are files of this crate,
//! shared by all models: `base/`, `sched/types/waiter.rs`, `sched/park/`, `outside.rs`.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "models use a part of the included files")]
#![allow(missing_docs, reason = "a model's name says what it checks")]

mod base;
mod chan;
mod event_log;
mod sched;
mod sync;
mod transparent;

mod outside;
use outside::{arch, stack, sys, timer};

#[path = "."]
mod goroutine {
    #[path = "../../src/goroutine/join_word.rs"]
    pub(crate) mod join_word;
}

#[path = "."]
mod future {
    #[path = "../../src/future/task_word.rs"]
    pub(crate) mod task_word;
}

#[path = "."]
mod netpoll {
    #[path = "../../src/netpoll/word.rs"]
    pub(crate) mod word;
}

pub mod models;
