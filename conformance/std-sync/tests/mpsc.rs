#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// What the body calls `crate`: std, but for its threads and locks.
pub use std::{cell, env, gort_sync as sync, panic, thread, time};
// And what it calls `super`.
pub use std::gort_sync::mpsc::*;

include!(concat!(env!("OUT_DIR"), "/mpsc.rs"));
