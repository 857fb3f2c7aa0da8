//! All parties are OS threads.

pub(crate) use std::prelude::v1::test;
pub(crate) use std::thread::{scope, sleep, spawn, yield_now};

#[path = "body/mod.rs"]
mod body;
