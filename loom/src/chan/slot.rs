//! Channel slots with loom's cells, which panic if two threads use one at once.

use std::mem::MaybeUninit;
use std::ptr;

use loom::cell::UnsafeCell;

use crate::base::atomic::{AtomicUsize, Ordering};
use crate::chan::flavors::relax::stamped;

/// A stamp wakes spinners when it changes.
pub(crate) struct Stamp(AtomicUsize);

impl Stamp {
    pub(crate) fn load(&self, ordering: Ordering) -> usize {
        self.0.load(ordering)
    }

    pub(crate) fn store(&self, value: usize, ordering: Ordering) {
        self.0.store(value, ordering);
        stamped();
    }
}

pub(crate) struct Place<T>(UnsafeCell<MaybeUninit<T>>);

impl<T> Place<T> {
    pub(crate) fn new() -> Place<T> {
        Place(UnsafeCell::new(MaybeUninit::uninit()))
    }

    pub(crate) unsafe fn write(&self, from: *const T) {
        // SAFETY: the caller's promise, and loom checks that no other thread uses the place.
        self.0.with_mut(|value| unsafe { ptr::copy_nonoverlapping(from, value.cast::<T>(), 1) });
    }

    pub(crate) unsafe fn read(&self, to: *mut T) {
        // SAFETY: as above.
        self.0.with_mut(|value| unsafe { ptr::copy_nonoverlapping(value.cast::<T>(), to, 1) });
    }
}

pub(crate) struct Slot<T> {
    pub(crate) stamp: Stamp,
    pub(crate) place: Place<T>,
}

pub(crate) fn slots<T>(count: usize) -> Box<[Slot<T>]> {
    (0..count).map(|_| Slot { stamp: Stamp(AtomicUsize::new(0)), place: Place::new() }).collect()
}
