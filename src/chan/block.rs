//! The memory of an unbounded channel: blocks of messages, linked in the order in which they are filled.

use std::ptr::{self, NonNull};

pub(crate) use crate::atomic::CHAN_BLOCK as BLOCK;
use crate::atomic::{AtomicPtr, Ordering};
use crate::chan::slot::Place;

/// `BLOCK` places for messages. Which of them hold one is known by the positions of the two ends.
pub(crate) struct Block<T> {
    /// Relaxed is enough: the link is published with the tail's position.
    next: AtomicPtr<Block<T>>,
    messages: [Place<T>; BLOCK],
}

impl<T> Block<T> {
    /// An empty block on the heap. Made there: so many large messages would not fit on a goroutine's stack.
    pub(crate) fn new() -> NonNull<Block<T>> {
        let mut block = Box::<Block<T>>::new_uninit();
        let at = block.as_mut_ptr();
        // SAFETY: all its parts are written, within the box.
        let block = unsafe {
            (&raw mut (*at).next).write(AtomicPtr::new(ptr::null_mut()));
            let messages = (&raw mut (*at).messages).cast::<Place<T>>();
            for index in 0..BLOCK {
                messages.add(index).write(Place::new());
            }
            block.assume_init()
        };
        NonNull::from(Box::leak(block))
    }

    /// Gives the memory back. Messages in it are not dropped.
    ///
    /// # Safety
    /// The block came from `new` and nobody uses it any more.
    pub(crate) unsafe fn free(block: NonNull<Block<T>>) {
        // SAFETY: the caller's.
        drop(unsafe { Box::from_raw(block.as_ptr()) });
    }

    #[inline]
    pub(crate) fn next(&self) -> *mut Block<T> {
        self.next.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_next(&self, next: *mut Block<T>) {
        self.next.store(next, Ordering::Relaxed);
    }

    /// The place of a message.
    #[inline]
    pub(crate) fn place(&self, index: usize) -> &Place<T> {
        &self.messages[index]
    }
}
