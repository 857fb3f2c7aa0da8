#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// The names that the included file expects in `crate`: std's, with goroutines for threads.
pub use std::{any, cell, collections, env, mem, panic, result, sync, thread, thread_local, time};

include!(concat!(env!("OUT_DIR"), "/condvar.rs"));
