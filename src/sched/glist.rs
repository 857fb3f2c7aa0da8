//! Lists of goroutines, linked through `G::link`: they allocate nothing.

use std::cell::Cell;
use std::ptr;

use super::g::G;

/// A first-in-first-out list with a count. Whoever owns the list owns the Gs in it.
pub(crate) struct GList {
    head: Cell<*const G>,
    tail: Cell<*const G>,
    len: Cell<usize>,
}

// SAFETY: a list is owned by one thread at a time (a lock, or the P it belongs to).
unsafe impl Send for GList {}

impl GList {
    pub(crate) const fn new() -> GList {
        GList { head: Cell::new(ptr::null()), tail: Cell::new(ptr::null()), len: Cell::new(0) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }

    pub(crate) fn push_back(&self, g: &'static G) {
        g.link.set(ptr::null());
        match self.tail.get() {
            tail if tail.is_null() => self.head.set(g),
            // SAFETY: the tail is a G in this list, which we own.
            tail => unsafe { (*tail).link.set(g) },
        }
        self.tail.set(g);
        self.len.set(self.len.get() + 1);
    }

    pub(crate) fn pop_front(&self) -> Option<&'static G> {
        // SAFETY: Gs are never unmapped.
        let g: &'static G = unsafe { self.head.get().as_ref() }?;
        self.head.set(g.link.get());
        if self.head.get().is_null() {
            self.tail.set(ptr::null());
        }
        self.len.set(self.len.get() - 1);
        Some(g)
    }

    /// Looks at each.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&'static G)) {
        let mut next = self.head.get();
        // SAFETY: Gs are never unmapped, and those in the list are ours.
        while let Some(g) = unsafe { next.as_ref() } {
            f(g);
            next = g.link.get();
        }
    }
}
