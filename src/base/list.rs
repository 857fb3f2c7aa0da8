//! An intrusive first-in-first-out list, which allocates nothing: the links lie in the items.

use std::cell::Cell;
use std::ptr;

/// An item of a [`List`]. It is in one list at a time.
pub(crate) trait Linked: 'static {
    /// The link to the next item of the list that it is in.
    fn link(&self) -> &Cell<*const Self>;
}

/// The owner of the list owns the items in it, which live forever.
pub(crate) struct List<T> {
    head: Cell<*const T>,
    tail: Cell<*const T>,
    len: Cell<usize>,
}

// SAFETY: a list is owned by one thread at a time (a lock, or the P it belongs to).
unsafe impl<T> Send for List<T> {}

impl<T: Linked> List<T> {
    pub(crate) const fn new() -> List<T> {
        List { head: Cell::new(ptr::null()), tail: Cell::new(ptr::null()), len: Cell::new(0) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }

    pub(crate) fn push_back(&self, item: &'static T) {
        item.link().set(ptr::null());
        match self.tail.get() {
            tail if tail.is_null() => self.head.set(item),
            // SAFETY: the tail is an item of this list, which we own.
            tail => unsafe { (*tail).link().set(item) },
        }
        self.tail.set(item);
        self.len.set(self.len.get() + 1);
    }

    pub(crate) fn pop_front(&self) -> Option<&'static T> {
        // SAFETY: only `&'static` items are put in.
        let item: &'static T = unsafe { self.head.get().as_ref() }?;
        self.head.set(item.link().get());
        if self.head.get().is_null() {
            self.tail.set(ptr::null());
        }
        self.len.set(self.len.get() - 1);
        Some(item)
    }

    /// Calls `f` with each item, first to last.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&'static T)) {
        let mut next = self.head.get();
        // SAFETY: only `&'static` items are put in, and those in the list are ours.
        while let Some(item) = unsafe { next.as_ref() } {
            f(item);
            next = item.link().get();
        }
    }
}
