//! Loom's atomics under the names of gort's `src/atomic.rs`.

pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

/// Small, so that few steps fill it and make the indices go around.
pub(crate) const RUNQ_SIZE: usize = 4;

/// See gort's: loom treats SeqCst accesses as acquire and release, so the total order that they have in Rust needs
/// a fence here.
pub(crate) fn fence_after_seq_cst() {
    fence(Ordering::SeqCst);
}
