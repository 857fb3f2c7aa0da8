#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

include!(concat!(env!("OUT_DIR"), "/crossbeam-utils.rs"));
