//! Behaviour of `gort::sync`, as its users see it. The same bodies run in each form; the forms differ in where they
//! take `test`, `spawn`, `scope`, `sleep` and `yield_now` from.

#![allow(clippy::duplicate_mod, reason = "the same tests in two forms: goroutines and OS threads")]

mod goroutines;
mod mixed;
mod support;
mod threads;
