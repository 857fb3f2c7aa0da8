//! The behaviour of `gort::sync` as its users see it. The same tests, in `body/`, run in three forms: the
//! parties are goroutines, OS threads, or both.

#![allow(clippy::duplicate_mod, reason = "the same tests in three forms")]

#[path = "../common/mod.rs"]
mod common;

mod goroutines;
mod mixed;
mod threads;
