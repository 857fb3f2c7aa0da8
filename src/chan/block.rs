//! The memory of an unbounded channel: blocks of messages, linked in the order in which they are filled.

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

pub(crate) use crate::atomic::CHAN_BLOCK as BLOCK;

/// `BLOCK` places for messages. Which of them hold one is known by the positions of the two ends.
pub(crate) struct Block<T> {
    next: UnsafeCell<*mut Block<T>>,
    messages: [UnsafeCell<MaybeUninit<T>>; BLOCK],
}

impl<T> Block<T> {
    /// A block on the heap, of which only the link is written to.
    pub(crate) fn new() -> NonNull<Block<T>> {
        let layout = Layout::new::<Block<T>>();
        // SAFETY: the layout is not of size zero, there is a link. It is written before anybody reads it; the
        // places for messages need no initial value.
        unsafe {
            let block = alloc(layout).cast::<Block<T>>();
            let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
            (&raw mut (*block.as_ptr()).next).write(UnsafeCell::new(ptr::null_mut()));
            block
        }
    }

    /// Gives the memory back. Messages in it are not dropped.
    ///
    /// # Safety
    /// The block came from `new` and nobody uses it any more.
    pub(crate) unsafe fn free(block: NonNull<Block<T>>) {
        // SAFETY: allocated with the layout that the box frees; the block has nothing to drop.
        drop(unsafe { Box::from_raw(block.as_ptr()) });
    }

    /// # Safety
    /// The block is alive, and its link is the caller's to read or already published.
    #[inline]
    pub(crate) unsafe fn next(block: NonNull<Block<T>>) -> *mut Block<T> {
        // SAFETY: the caller's.
        unsafe { *(*block.as_ptr()).next.get() }
    }

    /// # Safety
    /// The block is alive, and its link is the caller's to write.
    #[inline]
    pub(crate) unsafe fn set_next(block: NonNull<Block<T>>, next: *mut Block<T>) {
        // SAFETY: the caller's.
        unsafe { *(*block.as_ptr()).next.get() = next }
    }

    /// The place of a message.
    ///
    /// # Safety
    /// The block is alive and `index < BLOCK`.
    #[inline]
    pub(crate) unsafe fn message(block: NonNull<Block<T>>, index: usize) -> *mut T {
        // SAFETY: the caller's.
        unsafe { (*block.as_ptr()).messages.get_unchecked(index).get().cast() }
    }
}
