//! A double-ended queue of goroutines, as pointers in an array: moving goroutines through it touches none of them, which
//! with thousands of goroutines would be a cache miss each. Its memory is the runtime's own: it must grow while a P is held,
//! when the global allocator may not be used.

use super::g::G;
use super::throw;
use crate::sys::mem;

pub(crate) struct GDeque {
    items: *mut *const G,
    /// A power of two, or 0.
    capacity: usize,
    head: usize,
    len: usize,
}

// SAFETY: whoever owns the deque owns the Gs in it.
unsafe impl Send for GDeque {}

const FIRST_CAPACITY: usize = mem::PAGE / size_of::<*const G>();

impl GDeque {
    pub(crate) const fn new() -> GDeque {
        GDeque { items: std::ptr::null_mut(), capacity: 0, head: 0, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn place(&self, index: usize) -> *mut *const G {
        // SAFETY: masked to the capacity; called only when there is one.
        unsafe { self.items.add((self.head + index) & (self.capacity - 1)) }
    }

    #[inline]
    pub(crate) fn push_back(&mut self, g: &'static G) {
        if self.len == self.capacity {
            self.grow();
        }
        // SAFETY: there is room.
        unsafe { self.place(self.len).write(g) };
        self.len += 1;
    }

    pub(crate) fn push_front(&mut self, g: &'static G) {
        if self.len == self.capacity {
            self.grow();
        }
        self.head = self.head.wrapping_sub(1) & (self.capacity - 1);
        self.len += 1;
        // SAFETY: there is room.
        unsafe { self.place(0).write(g) };
    }

    #[inline]
    pub(crate) fn pop_back(&mut self) -> Option<&'static G> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: it was full; Gs are never unmapped.
        Some(unsafe { &**self.place(self.len) })
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<&'static G> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: it is full; Gs are never unmapped.
        let g = unsafe { &**self.place(0) };
        self.head = (self.head + 1) & (self.capacity - 1);
        self.len -= 1;
        Some(g)
    }

    /// Lets the second one be the first, if it is preferred and the first one is not.
    pub(crate) fn prefer_second(&mut self, preferred: impl Fn(&'static G) -> bool) -> bool {
        if self.len < 2 {
            return false;
        }
        let (first, second) = (self.place(0), self.place(1));
        // SAFETY: both are full; Gs are never unmapped.
        unsafe {
            let swap = preferred(&**second) && !preferred(&**first);
            if swap {
                std::ptr::swap(first, second);
            }
            swap
        }
    }

    /// The last one, which stays.
    #[inline]
    pub(crate) fn back(&self) -> Option<&'static G> {
        // SAFETY: as in `pop_back`.
        (self.len != 0).then(|| unsafe { &**self.place(self.len - 1) })
    }

    #[cold]
    fn grow(&mut self) {
        let capacity = (self.capacity * 2).max(FIRST_CAPACITY);
        let items = match mem::reserve(capacity * size_of::<*const G>()) {
            Ok(memory) => memory as *mut *const G,
            Err(error) => throw("queue", format_args!("no memory for a queue of {capacity}: {error}")),
        };
        for index in 0..self.len {
            // SAFETY: the old items are full up to `len`; the new memory is larger.
            unsafe { items.add(index).write(*self.place(index)) };
        }
        if self.capacity != 0 {
            // SAFETY: nobody else knows the old memory.
            unsafe { mem::release(self.items as usize, self.capacity * size_of::<*const G>()) };
        }
        *self = GDeque { items, capacity, head: 0, len: self.len };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn the_second_goes_first_only_if_it_alone_is_preferred() {
        let [a, b, c] = [0; 3].map(|_| &*Box::leak(Box::new(G::new(0, 1, 0))));
        let is = |wanted: &'static G| move |g: &'static G| std::ptr::eq(g, wanted);
        let mut deque = GDeque::new();
        assert!(!deque.prefer_second(|_| true));
        [a, b, c].into_iter().for_each(|g| deque.push_back(g));
        assert!(!deque.prefer_second(is(a)) && !deque.prefer_second(is(c)) && !deque.prefer_second(|_| true));
        assert!(deque.prefer_second(is(b)));
        let order = [(); 3].map(|()| deque.pop_front());
        assert!(order.into_iter().zip([b, a, c]).all(|(got, g)| got.is_some_and(is(g))));
    }

    #[test]
    fn agrees_with_a_vec_deque() {
        let gs: Vec<&'static G> = (0..5000usize).map(|_| &*Box::leak(Box::new(G::new(0, 1, 0)))).collect();
        let (mut deque, mut model) = (GDeque::new(), VecDeque::new());
        let mut random = 12345u64;
        for &g in gs.iter().cycle().take(50_000) {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (ours, theirs) = match random >> 61 {
                0 => (deque.pop_back(), model.pop_back()),
                1 => (deque.pop_front(), model.pop_front()),
                2 | 3 => {
                    deque.push_front(g);
                    model.push_front(g);
                    (None, None)
                }
                _ => {
                    deque.push_back(g);
                    model.push_back(g);
                    (None, None)
                }
            };
            assert!(match (ours, theirs) {
                (Some(a), Some(b)) => std::ptr::eq(a, b),
                (a, b) => a.is_none() && b.is_none(),
            });
            assert_eq!(deque.len(), model.len());
            assert_eq!(deque.back().map(std::ptr::from_ref), model.back().map(|&g| std::ptr::from_ref(g)));
        }
    }
}
