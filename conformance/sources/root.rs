//! A crate from elsewhere, unmodified, but that its threads, and those of its tests, are goroutines.

#![allow(warnings)]

extern crate gstd as std;
#[cfg(test)]
#[macro_use]
extern crate gtest;

include!(concat!(env!("OUT_DIR"), "/root.rs"));
