#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

#[macro_use]
extern crate crossbeam_channel;
/// With goroutines for the threads of `scope`.
extern crate scope as crossbeam_utils;

include!(concat!(env!("OUT_DIR"), "/crossbeam-channel.rs"));
