//! The memory in which a channel stores its messages: single places, and the slots of a ring. The loom models
//! replace this module with one with the same functions over loom's cells.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;

use crate::base::atomic::AtomicUsize;

/// Room for one message. The place does not know whether it holds one or who may access it: the channel's
/// positions and stamps say so.
pub(crate) struct Place<T>(UnsafeCell<MaybeUninit<T>>);

impl<T> Place<T> {
    /// An empty place.
    pub(crate) const fn new() -> Place<T> {
        Place(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Moves a message in.
    ///
    /// # Safety
    /// The caller owns the place, which is empty. The message at `from` moves into it: the caller must not
    /// use or drop it afterwards.
    #[inline]
    pub(crate) unsafe fn write(&self, from: *const T) {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(from, self.0.get().cast::<T>(), 1) }
    }

    /// Moves the message out.
    ///
    /// # Safety
    /// The caller owns the place, which holds a message. `to` may be written to.
    #[inline]
    pub(crate) unsafe fn read(&self, to: *mut T) {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(self.0.get().cast::<T>(), to, 1) }
    }
}

/// One slot of a ring. `ring.rs` explains the stamps.
pub(crate) struct Slot<T> {
    pub(crate) stamp: AtomicUsize,
    pub(crate) place: Place<T>,
}

/// Allocates the slots of a ring, all with the stamp 0. The allocator takes large zeroed blocks fresh from
/// the kernel and does not touch them, so a large ring costs only address space until it is used.
pub(crate) fn slots<T>(count: usize) -> Box<[Slot<T>]> {
    let layout = Layout::array::<Slot<T>>(count).expect("the caller keeps rings small");
    debug_assert_ne!(layout.size(), 0, "a slot has a stamp, and a ring has a slot");
    // SAFETY: the layout is not of size zero.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: zeroed memory is a valid slot: a stamp of 0 and no message. The layout and the allocator are
    // those of a box.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(memory.cast::<Slot<T>>(), count)) }
}
