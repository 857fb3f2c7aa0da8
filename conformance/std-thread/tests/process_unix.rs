#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// The names that the included file expects in `crate`: std's, with goroutines for threads.
pub use std::{os, panic, process};

include!(concat!(env!("OUT_DIR"), "/process_unix.rs"));
