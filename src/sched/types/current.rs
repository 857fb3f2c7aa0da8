//! Finding the calling goroutine.
//!
//! A goroutine finds itself through `CURRENT`, a thread-local of its private block (or, for a shared-TLS
//! goroutine, of its M's thread), and its M through the G. On a foreign thread `CURRENT` is null.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicIsize, Ordering};

use super::g::G;
use crate::arch;

thread_local! {
    static CURRENT: Cell<*const G> = const { Cell::new(ptr::null()) };
}

/// Where `CURRENT` lies relative to the thread pointer; 0 until it is known to be the same everywhere.
static CURRENT_OFFSET: AtomicIsize = AtomicIsize::new(0);

/// The calling goroutine, or `None` on a foreign thread.
///
/// This does not use `CURRENT` by name. The compiler may keep the address of a thread-local while the
/// goroutine moves to another thread within one function; and it loads the thread pointer first where one
/// load suffices.
#[inline]
pub(crate) fn current() -> Option<&'static G> {
    let offset = CURRENT_OFFSET.load(Ordering::Relaxed);
    if offset == 0 {
        return current_by_name();
    }
    // SAFETY: `CURRENT` lies there, in every thread and block (`init`).
    let g = unsafe { arch::load_at_thread_pointer(offset) } as *const G;
    // SAFETY: Gs are never unmapped.
    unsafe { g.as_ref() }
}

/// As [`current`], before the runtime has started and where it has no private thread-local storage.
#[cold]
#[inline(never)]
fn current_by_name() -> Option<&'static G> {
    // SAFETY: Gs are never unmapped.
    unsafe { CURRENT.get().as_ref() }
}

/// The number of the calling goroutine's P. It may be out of date at once.
pub(crate) fn current_p() -> Option<usize> {
    current()?.m().p().map(|p| p.id as usize)
}

/// The number of the bubble of the calling goroutine, or 0 (`testing/bubble.rs`).
#[inline]
pub(crate) fn current_bubble() -> u8 {
    current().map_or(0, |g| g.bubble.get())
}

/// The address of `CURRENT` in the calling thread's TLS.
#[inline(never)]
pub(crate) fn current_slot() -> *const Cell<*const G> {
    CURRENT.with(ptr::from_ref)
}

/// Writes `g` into the `CURRENT` of its private block, where `g`'s code will look for it.
pub(crate) fn mark_block(g: &'static G) {
    // SAFETY: the block is complete and g's, and `CURRENT` is at the same offset in every block and thread:
    // the offset was computed from the program's own static TLS.
    unsafe { (*(current_in(g.slot.block) as *const Cell<*const G>)).set(g) };
}

/// Where `CURRENT` is in the block with that thread pointer.
#[inline(always)]
pub(crate) fn current_in(tp: usize) -> usize {
    tp.wrapping_add_signed(CURRENT_OFFSET.load(Ordering::Relaxed))
}

/// Where `CURRENT` lies relative to the calling thread's thread pointer.
pub(crate) fn current_offset() -> isize {
    current_slot() as isize - arch::thread_pointer() as isize
}

/// Called once, at start-up, after the check of thread-local storage found `CURRENT` at this offset in a
/// block, too.
pub(crate) fn init(offset: isize) {
    CURRENT_OFFSET.store(offset, Ordering::Relaxed);
}
