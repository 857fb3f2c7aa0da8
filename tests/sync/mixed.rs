//! The tests themselves are OS threads and start goroutines.

pub(crate) use gort::{scope, sleep, spawn, yield_now};
pub(crate) use std::prelude::v1::test;

#[path = "body/mod.rs"]
mod body;
