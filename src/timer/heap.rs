//! A 4-ary min-heap of (time, item) pairs. Its memory comes from the kernel, because it has to grow while a P
//! is held, when the global allocator must not be used.

use super::node::{NEVER, Timer};
use crate::base::lock::{Rank, Ranked};
use crate::base::{prefetch, throw};
use crate::sys::mem;

#[derive(Clone, Copy)]
struct Entry {
    when: u64,
    /// An [`Item`] in one word: the address, and in bit 0 whether it is a sleeper. So an entry has 16 bytes,
    /// and four siblings share a cache line: see [`FIRST`].
    packed: usize,
}

const SLEEPER: usize = 1;

/// What is in the heap.
#[derive(Clone, Copy)]
pub(crate) enum Item {
    /// A timer. It stores its index in the heap, so that it can be stopped.
    Timer(*const Timer),
    /// The number of a waiter that sleeps: an address whose lowest bit is 0. Nothing can end the sleep early,
    /// and the heap does not touch the waiter before its time: with many sleepers its memory is not cached.
    Sleeper(usize),
}

impl Item {
    fn pack(self) -> usize {
        match self {
            Item::Timer(timer) => timer as usize,
            Item::Sleeper(waiter) => waiter | SLEEPER,
        }
    }

    /// Prefetches the timer or waiter.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch::line(self.pack());
    }

    #[inline]
    fn unpack(packed: usize) -> Item {
        if packed & SLEEPER == 0 {
            Item::Timer(packed as *const Timer)
        } else {
            Item::Sleeper(packed & !SLEEPER)
        }
    }
}

pub(crate) struct Heap {
    entries: *mut Entry,
    len: usize,
    capacity: usize,
}

impl Ranked for Heap {
    const RANK: Rank = Rank::TimerHeap;
}

// SAFETY: the heap owns its memory; the timers in it are touched only under its lock.
unsafe impl Send for Heap {}

const ARITY: usize = 4;
const FIRST_CAPACITY: usize = mem::PAGE / size_of::<Entry>();
/// The root's index in the memory. With this offset the children of every entry share one cache line.
const FIRST: usize = ARITY - 1;

impl Heap {
    pub(crate) const fn new() -> Heap {
        Heap { entries: std::ptr::null_mut(), len: 0, capacity: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The earliest time, or `NEVER`.
    #[inline]
    pub(crate) fn first(&self) -> u64 {
        if self.len == 0 { NEVER } else { self.get(0).when }
    }

    /// Whether many entries (at least half a dozen) are due before `then`, judged by the upper three levels.
    pub(crate) fn has_many_before(&self, then: u64) -> bool {
        const LOOKED_AT: usize = 1 + ARITY + ARITY * ARITY;
        (0..self.len.min(LOOKED_AT)).filter(|&index| self.get(index).when < then).count() > LOOKED_AT / 4
    }

    fn get(&self, index: usize) -> Entry {
        debug_assert!(index < self.len);
        // SAFETY: the first `len` entries are initialised.
        unsafe { *self.entries.add(index) }
    }

    /// Stores an entry and tells its timer where it is.
    fn put(&mut self, index: usize, entry: Entry) {
        debug_assert!(index < self.len);
        // SAFETY: within the capacity; timers in the heap are alive.
        unsafe {
            self.entries.add(index).write(entry);
            if let Item::Timer(timer) = Item::unpack(entry.packed) {
                (*timer).index.set(index);
            }
        }
    }

    pub(crate) fn push(&mut self, when: u64, item: Item) {
        if self.len == self.capacity {
            self.grow();
        }
        self.len += 1;
        self.sift_up(self.len - 1, Entry { when, packed: item.pack() });
    }

    pub(crate) fn pop(&mut self) -> Item {
        let first = Item::unpack(self.get(0).packed);
        self.remove_at(0);
        first
    }

    /// Removes a timer that is in this heap.
    pub(crate) fn remove(&mut self, timer: &Timer) {
        self.remove_at(timer.index.get());
    }

    fn remove_at(&mut self, index: usize) {
        let last = self.get(self.len - 1);
        self.len -= 1;
        if index == self.len {
            return;
        }
        let goes_up = index > 0 && last.when < self.get((index - 1) / ARITY).when;
        if goes_up {
            self.sift_up(index, last);
        } else {
            self.sift_down(index, last);
        }
    }

    fn sift_up(&mut self, mut index: usize, entry: Entry) {
        while index > 0 {
            let parent = (index - 1) / ARITY;
            let above = self.get(parent);
            if above.when <= entry.when {
                break;
            }
            self.put(index, above);
            index = parent;
        }
        self.put(index, entry);
    }

    fn sift_down(&mut self, mut index: usize, entry: Entry) {
        loop {
            let first_child = index * ARITY + 1;
            self.prefetch_children_of_siblings(first_child);
            let children = first_child..(first_child + ARITY).min(self.len);
            let Some(child) = children.min_by_key(|&child| self.get(child).when) else { break };
            let below = self.get(child);
            if below.when >= entry.when {
                break;
            }
            self.put(index, below);
            index = child;
        }
        self.put(index, entry);
    }

    /// Prefetches the children of four siblings: the loop will descend to one of the four, and all their
    /// children lie side by side.
    #[inline]
    fn prefetch_children_of_siblings(&self, first: usize) {
        let children = first * ARITY + 1;
        if children < self.len {
            for sibling in 0..ARITY {
                prefetch::line(self.entries.wrapping_add(children + sibling * ARITY) as usize);
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let places = ((self.capacity + FIRST) * 2).max(FIRST_CAPACITY);
        let memory = match mem::reserve(places * size_of::<Entry>()) {
            Ok(memory) => memory as *mut Entry,
            Err(error) => throw("timer", format_args!("no memory for {places} timers: {error}")),
        };
        let mut grown = Heap { entries: memory.wrapping_add(FIRST), len: self.len, capacity: places - FIRST };
        // SAFETY: the new memory is larger than the old, and no one else has a pointer to either.
        unsafe { std::ptr::copy_nonoverlapping(self.entries, grown.entries, self.len) };
        std::mem::swap(self, &mut grown);
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if self.capacity != 0 {
            let memory = self.entries.wrapping_sub(FIRST) as usize;
            // SAFETY: the heap owns the memory.
            unsafe { mem::release(memory, (self.capacity + FIRST) * size_of::<Entry>()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pops_in_order_and_removes_any(
            times in proptest::collection::vec(0u64..1000, 1..600),
            seed in any::<u64>(),
        ) {
            let timers: Vec<Timer> = times.iter().map(|_| Timer::for_test()).collect();
            let mut heap = Heap::new();
            let mut expected = Vec::new();
            for (timer, when) in timers.iter().zip(&times) {
                heap.push(*when, Item::Timer(timer));
            }
            for (i, (timer, when)) in timers.iter().zip(&times).enumerate() {
                if (seed >> (i % 64)) & 1 == 1 {
                    heap.remove(timer);
                } else {
                    expected.push(*when);
                }
            }
            expected.sort_unstable();
            let mut popped = Vec::new();
            while heap.first() != NEVER {
                popped.push(heap.first());
                heap.pop();
            }
            prop_assert_eq!(popped, expected);
            prop_assert_eq!(heap.len(), 0);
        }
    }
}
