//! The memory of an unbounded channel: blocks of messages, linked in the order in which they are filled.

use std::ptr::{self, NonNull};

pub(crate) use crate::base::atomic::CHAN_BLOCK as BLOCK;
use crate::base::atomic::{AtomicPtr, Ordering};
use crate::chan::flavors::slot::Place;

/// `BLOCK` places for messages. The positions of the channel's two ends tell which places hold a message.
pub(crate) struct Block<T> {
    /// Accessed with Relaxed: the tail's position, stored afterwards with Release, publishes the link.
    next: AtomicPtr<Block<T>>,
    messages: [Place<T>; BLOCK],
}

impl<T> Block<T> {
    /// Allocates an empty block. It is initialised in place on the heap: a block of large messages would not
    /// fit on a goroutine's stack.
    pub(crate) fn new() -> NonNull<Block<T>> {
        let mut block = Box::<Block<T>>::new_uninit();
        let at = block.as_mut_ptr();
        // SAFETY: all writes are within the box, and together they initialise all of its fields.
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

    /// Frees the memory. Messages in it are not dropped.
    ///
    /// # Safety
    /// The block came from `new`, and nothing uses it any more.
    pub(crate) unsafe fn free(block: NonNull<Block<T>>) {
        // SAFETY: the caller's promise.
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

    /// The place at `index`.
    #[inline]
    pub(crate) fn place(&self, index: usize) -> &Place<T> {
        &self.messages[index]
    }
}
