//! Everybody is a plain OS thread.

pub(crate) use std::thread::{scope, sleep, spawn, yield_now};

#[path = "mutex.rs"]
mod mutex;
#[path = "rwlock.rs"]
mod rwlock;
