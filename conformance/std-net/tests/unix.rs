#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// The names that the included file expects in `crate` and `super`.
pub use gort::net::{Shutdown, UnixDatagram, UnixListener, UnixSocketAddr as SocketAddr, UnixStream};
pub use std::net_names::Namespace;
pub use std::path::Path;
pub use std::{fs, io, os, sync, sys_common, thread, time};

include!(concat!(env!("OUT_DIR"), "/unix.rs"));
