//! The working memory of a leak search. It is mapped before the threads are stopped, because nothing can be
//! allocated while they are.

use std::ops::Range;

use crate::sys::mem::{self, PAGE};

/// The memory, from which lists are cut.
pub(super) struct Desk {
    start: usize,
    size: usize,
    used: usize,
}

impl Desk {
    /// `None`: there is no memory.
    pub(super) fn new(size: usize) -> Option<Desk> {
        let size = size.next_multiple_of(PAGE);
        Some(Desk { start: mem::reserve(size).ok()?, size, used: 0 })
    }

    /// The most bytes that a list of `capacity` needs.
    pub(super) const fn room_for<T>(capacity: usize) -> usize {
        capacity * size_of::<T>() + align_of::<T>()
    }

    /// Cuts out a list of that capacity. It must not be used after the desk is dropped.
    pub(super) fn list<T>(&mut self, capacity: usize) -> List<T> {
        let start = (self.start + self.used).next_multiple_of(align_of::<T>());
        self.used = start + capacity * size_of::<T>() - self.start;
        assert!(self.used <= self.size, "there is room for all lists");
        List { start: start as *mut T, len: 0, capacity }
    }

    pub(super) fn addresses(&self) -> Range<usize> {
        self.start..self.start + self.size
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // SAFETY: the search, whose lists are here, is over.
        unsafe { mem::release(self.start, self.size) };
    }
}

/// A vector of fixed capacity in the desk's memory.
pub(super) struct List<T> {
    start: *mut T,
    pub(super) len: usize,
    pub(super) capacity: usize,
}

impl<T> List<T> {
    pub(super) fn push(&mut self, value: T) -> bool {
        if self.len == self.capacity {
            return false;
        }
        // SAFETY: within the capacity.
        unsafe { self.start.add(self.len).write(value) };
        self.len += 1;
        true
    }

    pub(super) fn as_slice(&self) -> &[T] {
        // SAFETY: the first `len` elements were written.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and we are borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

// SAFETY: the memory belongs to the search.
unsafe impl<T: Send> Send for List<T> {}

impl<T> Clone for List<T> {
    fn clone(&self) -> List<T> {
        List { start: self.start, len: self.len, capacity: self.capacity }
    }
}
