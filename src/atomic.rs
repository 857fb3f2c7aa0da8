//! The atomics that lock-free files use. The `gort-loom` crate includes those same files and has a module
//! of this name over loom's types, so each file is model-checked as it is, without conditional code.

use std::sync::atomic::compiler_fence;

use crate::sys::membarrier;

pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

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

/// Between a write and a read of another word, by somebody who does both all the time, where others do the same in the
/// other order and have a [`heavy_fence`] between: of the two, one sees the other's write.
///
/// Free where the kernel can make all threads pass a barrier. One that comes to be available meanwhile: who did not get it
/// had written before, and so before we were told that it is.
#[inline(always)]
pub(crate) fn light_fence() {
    if membarrier::is_available() {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The other half of [`light_fence`]: some microseconds.
pub(crate) fn heavy_fence() {
    fence(Ordering::SeqCst);
    membarrier::all_threads();
}

/// Stays away from a word that another processor was faster to get, for `turns` times some hundred nanoseconds (by the
/// CPU): time in which that one, with the word in its cache, can use it some ten times more.
#[inline]
pub(crate) fn stay_away(turns: u32) {
    (0..16 * turns).for_each(|_| std::hint::spin_loop());
}

/// Messages in a block of an unbounded channel. The loom models shrink it.
pub(crate) const CHAN_BLOCK: usize = 32;
