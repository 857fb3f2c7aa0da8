//! `deadline::after` converts a timeout to a deadline.

pub(super) use crate::sched::park::clock::after;
