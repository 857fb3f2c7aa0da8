#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// The names that the included file expects in `crate`: std's, with gort's threads and locks.
pub use std::{cell, env, gort_sync as sync, panic, thread, time};
// The names that it expects in `super`.
pub use std::gort_sync::mpsc::*;

include!(concat!(env!("OUT_DIR"), "/mpsc.rs"));
