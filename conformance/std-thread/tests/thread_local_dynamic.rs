#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// What the body calls `crate`: std, but for its threads.
pub use std::{any, cell, collections, env, mem, panic, result, sync, thread, thread_local, time};

include!(concat!(env!("OUT_DIR"), "/thread_local_dynamic.rs"));
