#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// What the body calls `crate`: std, but for its threads.
pub use std::{any, cell, collections, env, mem, panic, result, sync, thread, thread_local, time};
// And what it calls `super`.
pub use std::sync::mpsc::*;

include!(concat!(env!("OUT_DIR"), "/mpsc_sync.rs"));
