//! The behaviour of Go's own channel programs. The same tests, in `body.rs`, run in three forms: the parties
//! are goroutines, OS threads, or both.

#![allow(clippy::duplicate_mod, reason = "the same tests in three forms")]
#![allow(clippy::type_complexity, reason = "tables of closures")]

#[path = "../../common/mod.rs"]
mod common;

mod goroutines;
mod mixed;
mod threads;
