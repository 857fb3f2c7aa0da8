//! All parties are goroutines, the tests themselves too.

pub(crate) use gort::{scope, sleep, spawn, test, yield_now};

#[path = "body/mod.rs"]
mod body;
