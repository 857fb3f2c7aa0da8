//! malloc's cache belongs to the M, not to the goroutine.
//!
//! glibc's malloc keeps a cache of free chunks and a pointer to an arena for each thread, in words of libc's
//! thread-locals. If each block had its own, each goroutine that ever allocated would keep up to 65 kB of free
//! chunks, even after its end. So a block has the words of the M that runs it: they are copied from the M's own
//! TLS when a goroutine comes to another M.
//!
//! - A1. An M's own TLS has a cache before the M runs its first goroutine ([`make`]), and keeps it until the
//!   thread ends.
//! - A2. While a goroutine runs on an M, its block has that M's words. `G::m_number` says whose words a block
//!   has; no two threads have the same number, even if one of them uses the M of the other after its end.
//! - A3. A goroutine that was stopped inside malloc keeps its thread (`sched/monitor/preempt.rs`), and other
//!   goroutines do not run there meanwhile. So nobody else sees a cache that is being changed.
//!
//! Where the words cannot be found (another allocator in malloc's place), goroutines keep caches of their own.

use std::sync::atomic::{AtomicIsize, Ordering};

use super::block;
use super::layout::Layout;

/// glibc has two such words; another version may have a few more.
const MOST: usize = 4;

/// The offsets of the words from the thread pointer; 0 ends the list.
static OFFSETS: [AtomicIsize; MOST] = [const { AtomicIsize::new(0) }; MOST];

/// Finds the words: those of libc's thread-locals that the first use of malloc changes.
///
/// # Safety
/// The block at `tp` is new, and no code has run on it.
pub(super) unsafe fn learn(layout: &Layout, tp: usize) {
    let Some(libc) = layout.modules.iter().find(|module| module.is_libc) else { return };
    let start = (tp - libc.offset).next_multiple_of(size_of::<usize>());
    let end = tp - libc.offset + libc.size;
    let words = (start..end).step_by(size_of::<usize>());
    // SAFETY: the words lie in libc's part of the block.
    let read = |address: usize| unsafe { *(address as *const usize) };
    let before: Vec<usize> = words.clone().map(read).collect();
    // SAFETY: nobody else runs on the block.
    unsafe { block::on_block(tp, use_malloc) };
    let changed: Vec<usize> = words
        .zip(before)
        .filter(|&(address, before)| read(address) != before)
        .map(|(address, _)| address)
        .collect();
    // A counter would have changed to a small number: only pointers are shared.
    if changed.len() <= MOST && changed.iter().all(|&address| read(address) > layout.below) {
        for (offset, address) in OFFSETS.iter().zip(changed) {
            offset.store(address as isize - tp as isize, Ordering::Relaxed);
        }
    }
}

pub(super) extern "C" fn use_malloc() {
    for size in [24, 1000, 100_000] {
        // SAFETY: allocates and frees.
        unsafe { libc::free(std::hint::black_box(libc::malloc(size))) };
    }
}

/// Makes sure that the calling thread has its cache (A1).
pub(crate) fn make() {
    use_malloc();
}

/// Lets the code on the block `to` use the cache of the thread whose own thread pointer is `from`.
///
/// # Safety
/// The calling thread owns both, and has called [`make`].
#[inline]
pub(crate) unsafe fn share(from: usize, to: usize) {
    for offset in &OFFSETS {
        let offset = offset.load(Ordering::Relaxed);
        if offset == 0 {
            return;
        }
        // SAFETY: the word lies in libc's static TLS, at the same offset in every thread and block.
        unsafe {
            *(to.wrapping_add_signed(offset) as *mut usize) =
                *(from.wrapping_add_signed(offset) as *const usize)
        };
    }
}

/// The address of the first of the words in the block at `tp`.
#[inline]
pub(crate) fn address_in(tp: usize) -> usize {
    tp.wrapping_add_signed(OFFSETS[0].load(Ordering::Relaxed))
}
