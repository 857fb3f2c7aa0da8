//! The atomics of the included files, and a small constant.

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

pub(crate) const CHAN_BLOCK: usize = 2;

/// See gort's. Time does not pass in a model.
pub(crate) fn stay_away(_turns: u32) {}
