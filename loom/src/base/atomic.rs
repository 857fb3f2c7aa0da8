//! Loom's atomics under the names of gort's `src/base/atomic.rs`, and smaller constants.

pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// Small, so that few steps fill it and make the indices wrap.
pub(crate) const RUNQ_SIZE: usize = 4;
pub(crate) const FORK_RING: usize = 2;
pub(crate) const MAX_PROCS: usize = 4;
pub(crate) const STEAL_ROUNDS: usize = 1;
pub(crate) const CHAN_BLOCK: usize = 2;
pub(crate) const LOG_CHUNK: usize = 2;
pub(crate) const OUTSIDE_RING: usize = 2;

/// Loom treats SeqCst accesses as acquire and release only, so the total order that they have in Rust needs a
/// fence here: see gort's file.
pub(crate) fn fence_after_seq_cst() {
    fence(Ordering::SeqCst);
}

/// In a model both halves of an asymmetric fence are full fences.
pub(crate) fn light_fence() {
    fence(Ordering::SeqCst);
}

pub(crate) fn heavy_fence() {
    fence(Ordering::SeqCst);
}

/// Does nothing, because time does not pass in a model.
pub(crate) fn stay_away(_turns: u32) {}
