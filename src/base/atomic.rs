//! The atomics that lock-free files use. The `gort-loom` crate includes those files and has a module of this
//! name with loom's types. So loom checks each file as it is, without conditional code.

use std::sync::atomic::compiler_fence;

use crate::sys::membarrier;

pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// Slots of a P's run queue. A power of two; the loom models shrink it.
pub(crate) const RUNQ_SIZE: usize = 256;

/// Pending forks of a goroutine. A power of two; the loom models shrink it.
pub(crate) const FORK_RING: usize = 64;

/// The most Ps there can be. The loom models shrink it.
pub(crate) const MAX_PROCS: usize = crate::sys::cpus::MAX_PROCS;

/// How many times a thief looks at all other Ps. The loom models shrink it.
pub(crate) const STEAL_ROUNDS: usize = 4;

/// Messages in a block of an unbounded channel. The loom models shrink it.
pub(crate) const CHAN_BLOCK: usize = 32;

/// Stands between a SeqCst write and the SeqCst loads that must not overtake it, where a protocol relies on
/// that.
///
/// In Rust it does nothing: all SeqCst operations have one total order that agrees with the program order of
/// each thread. So of two threads that each write one word and then read the other's, one sees the other's
/// write. (On x86 the write is a locked instruction, and that is a full barrier.) Loom gives SeqCst accesses
/// only acquire and release ordering, but knows SeqCst fences: there this is one.
#[inline(always)]
pub(crate) fn fence_after_seq_cst() {}

/// The cheap half of an asymmetric fence. A thread that writes one word and then reads another, very often,
/// puts this between the two; a thread that does the same in the opposite order, rarely, puts [`heavy_fence`]
/// there. Then at least one of the two sees the other's write.
///
/// It is free where the kernel can make all threads execute a barrier (membarrier). Membarrier may become
/// available at run time: a thread that still used the full fence had written before that, and so before any
/// heavy fence that relies on membarrier.
#[inline(always)]
pub(crate) fn light_fence() {
    if membarrier::is_available() {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The expensive half of [`light_fence`]: some microseconds.
pub(crate) fn heavy_fence() {
    fence(Ordering::SeqCst);
    membarrier::all_threads();
}

/// Records in a chunk of an event log. The loom models shrink it.
pub(crate) const LOG_CHUNK: usize = 512;

/// Records in the ring that is the event log of all threads that are not Ms: 16 MiB of addresses. The loom
/// models shrink it.
pub(crate) const OUTSIDE_RING: usize = 1 << 20;

/// Leaves a contended word alone for `turns` times some hundred nanoseconds (depending on the CPU). In that
/// time the CPU that won the race, with the word in its cache, can use it some ten times more.
#[inline]
pub(crate) fn stay_away(turns: u32) {
    (0..16 * turns).for_each(|_| std::hint::spin_loop());
}
