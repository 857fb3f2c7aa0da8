//! A list of free blocks of memory of one size, linked through their first word.

use std::cell::Cell;
use std::ptr;

use super::lock::{Rank, Ranked};

/// The owner of the list owns the blocks in it.
pub(crate) struct FreeList {
    head: Cell<*mut u8>,
    len: Cell<usize>,
}

impl Ranked for FreeList {
    const RANK: Rank = Rank::Alone;
}

// SAFETY: owned by one thread at a time: the owner of a P, or the holder of a lock.
unsafe impl Send for FreeList {}

impl FreeList {
    pub(crate) const fn new() -> FreeList {
        FreeList { head: Cell::new(ptr::null_mut()), len: Cell::new(0) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<*mut u8> {
        let block = self.head.get();
        if block.is_null() {
            return None;
        }
        // SAFETY: a free block's first word is the link.
        self.head.set(unsafe { *block.cast::<*mut u8>() });
        self.len.set(self.len.get() - 1);
        Some(block)
    }

    /// # Safety
    /// The block belongs to the caller, is writable, and is large enough for a pointer.
    #[inline]
    pub(crate) unsafe fn push(&self, block: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { *block.cast::<*mut u8>() = self.head.get() };
        self.head.set(block);
        self.len.set(self.len.get() + 1);
    }
}
