#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

#[macro_use]
extern crate crossbeam_channel as cc;

include!(concat!(env!("OUT_DIR"), "/flume.rs"));
