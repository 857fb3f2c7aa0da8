//! The atomics that lock-free files use. The `gort-loom` crate includes those same files and has a module
//! of this name over loom's types, so each file is model-checked as it is, without conditional code.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Slots of a P's run queue. A power of two; the loom models shrink it.
pub(crate) const RUNQ_SIZE: usize = 256;

/// Messages in a block of an unbounded channel. The loom models shrink it.
pub(crate) const CHAN_BLOCK: usize = 32;
