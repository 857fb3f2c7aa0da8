//! A double-ended queue of pointers in an array. Moving goroutines through it does not touch them; with
//! thousands of goroutines that saves a cache miss each. Its memory comes from the kernel, because it has to
//! grow while a P is held, when the global allocator must not be used.

use std::io;

use super::throw;
use crate::sys::mem;

pub(crate) struct PtrDeque<T: 'static> {
    items: *mut *const T,
    /// A power of two, or 0.
    capacity: usize,
    head: usize,
    len: usize,
}

// SAFETY: the owner of the deque owns what is in it.
unsafe impl<T> Send for PtrDeque<T> {}

/// Capacity of the first array: one page of pointers.
const FIRST_CAPACITY: usize = mem::PAGE / size_of::<*const ()>();

impl<T> PtrDeque<T> {
    pub(crate) const fn new() -> PtrDeque<T> {
        PtrDeque { items: std::ptr::null_mut(), capacity: 0, head: 0, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn place(&self, index: usize) -> *mut *const T {
        // SAFETY: masked to the capacity; called only when there is one.
        unsafe { self.items.add((self.head + index) & (self.capacity - 1)) }
    }

    /// An empty deque with room for a page of pointers, if there is memory for that.
    pub(crate) fn with_room() -> PtrDeque<T> {
        let mut deque = PtrDeque::new();
        let _tried_again_by_push = deque.grow();
        deque
    }

    #[inline]
    pub(crate) fn push_back(&mut self, g: &'static T) {
        if self.len == self.capacity {
            self.must_grow();
        }
        // SAFETY: there is room.
        unsafe { self.place(self.len).write(g) };
        self.len += 1;
    }

    /// As [`push_back`](PtrDeque::push_back), for an item that may be lost. False: there is no memory.
    #[inline]
    pub(crate) fn try_push_back(&mut self, g: &'static T) -> bool {
        let room = self.len != self.capacity || self.grow().is_ok();
        if room {
            self.push_back(g);
        }
        room
    }

    /// False: there is no memory.
    pub(crate) fn try_push_front(&mut self, g: &'static T) -> bool {
        if self.len == self.capacity && self.grow().is_err() {
            return false;
        }
        self.head = self.head.wrapping_sub(1) & (self.capacity - 1);
        self.len += 1;
        // SAFETY: there is room.
        unsafe { self.place(0).write(g) };
        true
    }

    #[inline]
    pub(crate) fn pop_back(&mut self) -> Option<&'static T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: it was full; only `&'static` items are put in.
        Some(unsafe { &**self.place(self.len) })
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<&'static T> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: it is full; only `&'static` items are put in.
        let g = unsafe { &**self.place(0) };
        self.head = (self.head + 1) & (self.capacity - 1);
        self.len -= 1;
        Some(g)
    }

    /// Swaps the first two items if the second is preferred and the first is not. True: they were swapped.
    pub(crate) fn prefer_second(&mut self, preferred: impl Fn(&'static T) -> bool) -> bool {
        if self.len < 2 {
            return false;
        }
        let (first, second) = (self.place(0), self.place(1));
        // SAFETY: both are full; only `&'static` items are put in.
        unsafe {
            let swap = preferred(&**second) && !preferred(&**first);
            if swap {
                std::ptr::swap(first, second);
            }
            swap
        }
    }

    /// The last item, which stays in the deque.
    #[inline]
    pub(crate) fn back(&self) -> Option<&'static T> {
        // SAFETY: as in `pop_back`.
        (self.len != 0).then(|| unsafe { &**self.place(self.len - 1) })
    }

    #[cold]
    fn must_grow(&mut self) {
        if let Err(error) = self.grow() {
            throw("queue", format_args!("no memory for a queue of more than {}: {error}", self.len));
        }
    }

    #[cold]
    fn grow(&mut self) -> io::Result<()> {
        let capacity = (self.capacity * 2).max(FIRST_CAPACITY);
        let items = mem::reserve(capacity * size_of::<*const T>())? as *mut *const T;
        for index in 0..self.len {
            // SAFETY: the old items are full up to `len`; the new memory is larger.
            unsafe { items.add(index).write(*self.place(index)) };
        }
        if self.capacity != 0 {
            // SAFETY: no one else has a pointer to the old memory.
            unsafe { mem::release(self.items as usize, self.capacity * size_of::<*const T>()) };
        }
        *self = PtrDeque { items, capacity, head: 0, len: self.len };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn the_second_goes_first_only_if_it_alone_is_preferred() {
        let [a, b, c] = [0; 3].map(|_| &*Box::leak(Box::new(0u8)));
        let is = |wanted: &'static u8| move |g: &'static u8| std::ptr::eq(g, wanted);
        let mut deque = PtrDeque::new();
        assert!(!deque.prefer_second(|_| true));
        [a, b, c].into_iter().for_each(|g| deque.push_back(g));
        assert!(!deque.prefer_second(is(a)) && !deque.prefer_second(is(c)) && !deque.prefer_second(|_| true));
        assert!(deque.prefer_second(is(b)));
        let order = [(); 3].map(|()| deque.pop_front());
        assert!(order.into_iter().zip([b, a, c]).all(|(got, g)| got.is_some_and(is(g))));
    }

    #[test]
    fn agrees_with_a_vec_deque() {
        let gs: Vec<&'static u8> = (0..5000usize).map(|_| &*Box::leak(Box::new(0u8))).collect();
        let (mut deque, mut model) = (PtrDeque::new(), VecDeque::new());
        let mut random = 12345u64;
        for &g in gs.iter().cycle().take(50_000) {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (ours, theirs) = match random >> 61 {
                0 => (deque.pop_back(), model.pop_back()),
                1 => (deque.pop_front(), model.pop_front()),
                2 | 3 => {
                    assert!(deque.try_push_front(g));
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
