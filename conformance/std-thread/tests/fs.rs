#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// The names that the included file expects in `crate`: std's, with goroutines for threads.
pub use std::{env, fs, io, os, path, str, sync, sys_common, thread, time};

include!(concat!(env!("OUT_DIR"), "/fs.rs"));
