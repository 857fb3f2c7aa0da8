#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// Its `scope` spawns OS threads, also from goroutines.
include!(concat!(env!("OUT_DIR"), "/crossbeam-utils.rs"));
