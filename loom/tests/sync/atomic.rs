//! The atomics of the included files.

pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// See gort's `src/atomic.rs`: loom treats SeqCst accesses as acquire and release.
pub(crate) fn fence_after_seq_cst() {
    fence(Ordering::SeqCst);
}

/// In a model the two kinds are one.
pub(crate) fn light_fence() {
    fence(Ordering::SeqCst);
}

pub(crate) fn heavy_fence() {
    fence(Ordering::SeqCst);
}
