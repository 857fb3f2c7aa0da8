//! All parties are OS threads.

pub(crate) use std::prelude::v1::test;
pub(crate) use std::thread::spawn as go;

#[path = "body.rs"]
mod body;
