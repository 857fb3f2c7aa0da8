#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// The names that the included file expects in `crate`: std's, with goroutines for threads.
pub use std::{env, fmt, io, os, sync, thread, time};

pub mod net {
    pub use std::net::*;
    pub mod test {
        include!(concat!(env!("OUT_DIR"), "/test.rs"));
        pub use body::*;
    }
}

include!(concat!(env!("OUT_DIR"), "/udp.rs"));
