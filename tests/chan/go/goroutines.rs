//! All parties are goroutines, the tests themselves too.

pub(crate) use gort::{spawn as go, test};

#[path = "body.rs"]
mod body;
