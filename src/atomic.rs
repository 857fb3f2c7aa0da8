//! The atomics that lock-free files use. The `gort-loom` crate includes those same files and has a module
//! of this name over loom's types, so each file is model-checked as it is, without conditional code.

pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Slots of a P's run queue. A power of two; the loom models shrink it.
pub(crate) const RUNQ_SIZE: usize = 256;

/// Stands between a SeqCst write and the SeqCst loads that must not overtake it, where a protocol relies on
/// that.
///
/// Nothing is to be done: all SeqCst operations have one total order that agrees with the program order of each
/// thread, so of two threads that each write one word and then read the other's, one sees the other's write.
/// (On x86 the write is a locked instruction, and that is a full barrier.) Loom gives SeqCst accesses only
/// acquire and release ordering, but knows SeqCst fences: there this is one.
#[inline(always)]
pub(crate) fn fence_after_seq_cst() {}

/// Messages in a block of an unbounded channel. The loom models shrink it.
pub(crate) const CHAN_BLOCK: usize = 32;
