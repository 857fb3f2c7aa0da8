#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// The names that the included file expects in `crate`: std's, with gort's threads and locks.
pub use std::{cell, env, gort_sync as sync, panic, thread, time};

include!(concat!(env!("OUT_DIR"), "/barrier.rs"));
