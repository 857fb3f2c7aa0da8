#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

#[macro_use]
extern crate crossbeam_channel;

include!(concat!(env!("OUT_DIR"), "/crossbeam-channel.rs"));
