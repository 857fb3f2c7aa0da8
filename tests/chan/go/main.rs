//! Go's channel programs, by behaviour, in three forms: plain threads, goroutines, and a thread among goroutines.

#![allow(clippy::duplicate_mod, reason = "the same tests in two forms: goroutines and OS threads")]
#![allow(clippy::type_complexity, reason = "tables of closures")]

mod goroutines;
mod mixed;
mod threads;
