//! The places where messages lie, and the memory of a ring. The loom models have their own module of this name,
//! with the same functions over loom's cells.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;

use crate::atomic::AtomicUsize;

/// Room for a message; who put one in, and who may take it out, is known elsewhere.
pub(crate) struct Place<T>(UnsafeCell<MaybeUninit<T>>);

impl<T> Place<T> {
    /// An empty one.
    pub(crate) const fn new() -> Place<T> {
        Place(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Moves a message in.
    ///
    /// # Safety
    /// The place is the caller's and empty; the message at `from` is given away.
    #[inline]
    pub(crate) unsafe fn write(&self, from: *const T) {
        // SAFETY: see above.
        unsafe { ptr::copy_nonoverlapping(from, self.0.get().cast::<T>(), 1) }
    }

    /// Moves the message out.
    ///
    /// # Safety
    /// The place is the caller's and holds a message; `to` may be written to.
    #[inline]
    pub(crate) unsafe fn read(&self, to: *mut T) {
        // SAFETY: see above.
        unsafe { ptr::copy_nonoverlapping(self.0.get().cast::<T>(), to, 1) }
    }
}

/// A place of a ring. What stamps mean is told in `ring.rs`.
pub(crate) struct Slot<T> {
    pub(crate) stamp: AtomicUsize,
    pub(crate) place: Place<T>,
}

/// The slots of a ring, all with the stamp 0. Zeroed memory of the allocator is not touched, so a large ring
/// occupies address space only until it is used.
pub(crate) fn slots<T>(count: usize) -> Box<[Slot<T>]> {
    let layout = Layout::array::<Slot<T>>(count).expect("the caller keeps rings small");
    debug_assert_ne!(layout.size(), 0, "a slot has a stamp, and a ring has a slot");
    // SAFETY: the layout is not of size zero.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: all zeroes are valid slots: a stamp of 0 and no value. Layout and allocator are those of a box.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(memory.cast::<Slot<T>>(), count)) }
}
