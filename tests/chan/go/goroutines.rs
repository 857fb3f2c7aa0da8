//! Everybody is a goroutine.

pub(crate) use gort::{spawn as go, test};

#[path = "body.rs"]
mod body;
