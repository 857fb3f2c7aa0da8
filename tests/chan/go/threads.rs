//! Everybody is a plain OS thread.

pub(crate) use std::prelude::v1::test;
pub(crate) use std::thread::spawn as go;

#[path = "body.rs"]
mod body;
