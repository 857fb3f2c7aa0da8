//! Behaviour of `gort::time`, as Go's tests of it want (sleep_test.go, tick_test.go). The files say which.

#[path = "../common/mod.rs"]
mod common;

mod funcs;
mod load;
mod sleeping;
mod timers;
