//! The behaviour of `gort::time`, after Go's sleep_test.go and tick_test.go. The files say which tests.

#[path = "../common/mod.rs"]
mod common;

mod funcs;
mod load;
mod sleeping;
mod timers;
