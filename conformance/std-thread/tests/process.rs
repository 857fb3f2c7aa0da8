#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// The names that the included file expects in `crate`: std's, with goroutines for threads.
pub use std::{env, io, os, str};
// The names that it expects in `super`.
pub use std::process::{Command, Output, Stdio};

include!(concat!(env!("OUT_DIR"), "/process.rs"));
