#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// The names that the included file expects in `crate`: std's, with goroutines for threads.
pub use std::{any, cell, collections, env, mem, panic, result, sync, thread, thread_local, time};
// The names that it expects in `super`.
pub use std::sync::Once;

include!(concat!(env!("OUT_DIR"), "/once.rs"));
