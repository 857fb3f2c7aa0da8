//! Timeouts to deadlines.

pub(super) use crate::time::clock::after;
