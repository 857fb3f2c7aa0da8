//! The tests themselves are OS threads and start goroutines.

pub(crate) use gort::spawn as go;
pub(crate) use std::prelude::v1::test;

#[path = "body.rs"]
mod body;
