//! malloc's cache belongs to the M, not to the goroutine.
//!
//! glibc's malloc keeps a cache of free chunks for each thread; a word of libc's thread-locals points to it.
//! If each block had its own, each goroutine that ever allocated would keep up to 65 kB of free chunks, even
//! after its end. So a block points to the cache of the M that runs it: the word is copied from the M's own
//! TLS when a goroutine comes to another M. So is the word for the arena, which malloc turns to when the
//! cache is empty: otherwise goroutines on different Ms would use neighbouring chunks, in the same cache
//! lines.
//!
//! - A1. An M's own TLS has a cache before the M runs its first goroutine ([`make`]), and keeps it until the
//!   thread ends.
//! - A2. While a goroutine runs on an M, its block has that M's word. `G::m_number` says whose word a block
//!   has; no two threads have the same number, even if one of them uses the M of the other after its end.
//! - A3. A goroutine that was stopped inside malloc keeps its thread (`sched/monitor/preempt.rs`), and other
//!   goroutines do not run there meanwhile. So nobody else sees a cache that is being changed.
//! - A4. The main arena is not shared. malloc counts the threads of each arena, and exchanges a thread's
//!   arena only if the main one could not serve it. So no exchange ever concerns an arena that a block has
//!   without being counted.
//!
//! With another allocator in malloc's place, nothing is shared: see `alloc::OnThread`.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use super::block;
use super::layout::Layout;
use crate::sys::process;

/// The offsets of the two words from the thread pointer; 0 if there is none.
static CACHE: AtomicIsize = AtomicIsize::new(0);
static ARENA: AtomicIsize = AtomicIsize::new(0);

/// An address in libc.
static LIBC: AtomicUsize = AtomicUsize::new(0);
/// libc is smaller than this (bytes).
const LIBC_SIZE: usize = 16 << 20;

/// Whether this may be the main arena: it is a variable of libc. The others lie in heaps of their own.
fn may_be_main_arena(arena: usize) -> bool {
    arena.abs_diff(LIBC.load(Ordering::Relaxed)) < LIBC_SIZE
}

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

/// glibc's malloc and free, if the program uses them.
fn glibc() -> Option<(Malloc, Free)> {
    let same = |public: &CStr, own: &CStr| {
        let address = process::definition(own);
        (address != 0 && process::definition(public) == address).then_some(address)
    };
    let (malloc, free) = (same(c"malloc", c"__libc_malloc")?, same(c"free", c"__libc_free")?);
    // SAFETY: these are the types of the two functions.
    Some(unsafe { (std::mem::transmute::<usize, Malloc>(malloc), std::mem::transmute::<usize, Free>(free)) })
}

/// Finds the words.
///
/// # Safety
/// The block at `tp` is new, and no code has run on it.
pub(super) unsafe fn learn(layout: &Layout, tp: usize) {
    let Some((malloc, free)) = glibc() else { return };
    let Some(libc) = layout.modules.iter().find(|module| module.is_libc) else { return };
    let start = (tp - libc.offset).next_multiple_of(size_of::<usize>());
    let words = (start..tp - libc.offset + libc.size).step_by(size_of::<usize>());
    let word = |address: usize| address as *mut usize;
    // SAFETY: the words lie in libc's part of the block.
    let read = |address: usize| unsafe { *word(address) };
    let use_malloc = || {
        // SAFETY: nobody else runs on the block; allocates and frees.
        unsafe { block::on_block(tp, || free(std::hint::black_box(malloc(24)))) };
    };
    let before: Vec<usize> = words.clone().map(read).collect();
    use_malloc();
    let changed = words.zip(before).filter(|&(address, before)| read(address) != before);
    // Malloc looks at its cache first. So without the pointer to the cache it makes a new one, but without
    // the pointer to an arena it takes the chunk that was just freed from the cache.
    let (caches, arenas): (Vec<_>, Vec<_>) = changed.partition(|&(address, initial)| {
        let pointer = read(address);
        // SAFETY: as above; malloc takes the initial value for a thread's first use.
        unsafe { *word(address) = initial };
        use_malloc();
        let made_anew = read(address) != initial;
        // SAFETY: as above; what was there before is still right.
        unsafe { *word(address) = pointer };
        made_anew
    });
    if let [(cache, _)] = caches[..] {
        LIBC.store(malloc as *const () as usize, Ordering::Relaxed);
        CACHE.store(cache as isize - tp as isize, Ordering::Relaxed);
        if let [(arena, _)] = arenas[..] {
            ARENA.store(arena as isize - tp as isize, Ordering::Relaxed);
        }
    }
}

/// Makes sure that the calling thread has its cache (A1).
pub(crate) fn make() {
    // SAFETY: allocates and frees.
    unsafe { libc::free(std::hint::black_box(libc::malloc(24))) };
}

/// Lets the code on the block `to` use the cache of the thread whose own thread pointer is `from`.
///
/// # Safety
/// The calling thread owns both, and has called [`make`].
#[inline]
pub(crate) unsafe fn share(from: usize, to: usize) {
    let (cache, arena) = (CACHE.load(Ordering::Relaxed), ARENA.load(Ordering::Relaxed));
    let word = |tp: usize, offset| tp.wrapping_add_signed(offset) as *mut usize;
    // SAFETY: the words lie in libc's static TLS, at the same offsets in every thread and block.
    unsafe {
        if cache != 0 {
            *word(to, cache) = *word(from, cache);
        }
        if arena != 0 && !may_be_main_arena(*word(from, arena)) {
            *word(to, arena) = *word(from, arena);
        }
    }
}

/// The address of the first word in the block at `tp`.
#[inline]
pub(crate) fn address_in(tp: usize) -> usize {
    tp.wrapping_add_signed(CACHE.load(Ordering::Relaxed))
}
