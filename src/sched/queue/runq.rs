//! A P's run queue: a lock-free ring that its owner pushes to and pops from, and from which other Ms steal
//! half; and `runnext`, a one-slot fast lane.
//!
//! Invariants:
//! - R1. `tail` is written by the owner only; `head` only grows, by compare-and-swap, by the owner and
//!   thieves. The slots `head..tail` are full; `tail - head <= RUNQ_SIZE`.
//! - R2. A slot is written by the owner only, while it is outside `head..tail` as the owner last saw it.
//! - R3. The thread that moves `head` over a slot owns what was in it. A thief reads the slots first and
//!   moves `head` after: if the swap succeeds, no other thread moved `head` meanwhile, so by R1 and R2 what
//!   it read was current.
//!
//! The indices are 32 bits and wrap; between a thief's load of `head` and its swap they cannot wrap around
//! completely, because that would take 2^32 pops.
//!
//! The queue holds pointers and never looks at what they point to.

use std::ptr;

use crate::base::atomic::{AtomicPtr, AtomicU32, Ordering, RUNQ_SIZE};

const MASK: u32 = RUNQ_SIZE as u32 - 1;

/// With more goroutines than this in the ring, a yield takes the full path to the next goroutine, which also
/// prefetches.
const LONG: u32 = RUNQ_SIZE as u32 / 16;

/// With more goroutines than this in the ring, the next ones are prefetched: they may have waited so long
/// that they are no longer cached.
const SEVERAL: u32 = 2;

/// With this many goroutines in the ring, new ones run before their parents: see `run/child_first.rs`.
const CROWDED: u32 = RUNQ_SIZE as u32 / 4;

/// Capacity of a batch: a stolen half, or an overflowing half and the newcomer.
pub(crate) const BATCH: usize = RUNQ_SIZE / 2 + 1;

pub(crate) struct RunQueue<T> {
    head: AtomicU32,
    tail: AtomicU32,
    runnext: AtomicPtr<T>,
    ring: [AtomicPtr<T>; RUNQ_SIZE],
}

impl<T> RunQueue<T> {
    pub(crate) fn new() -> RunQueue<T> {
        RunQueue {
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            runnext: AtomicPtr::new(ptr::null_mut()),
            ring: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// How many are in it, `runnext` included. An estimate, unless the caller owns the queue and no thread
    /// steals.
    pub(crate) fn len(&self) -> usize {
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Acquire);
        let next = !self.runnext.load(Ordering::Relaxed).is_null();
        (tail.wrapping_sub(head) as usize).min(RUNQ_SIZE) + usize::from(next)
    }

    /// Whether the queue was empty at some moment during the call. SeqCst: a thread that is about to sleep
    /// relies on it; it pairs with `put_next` (see `../README.md`).
    pub(crate) fn is_empty(&self) -> bool {
        // Between two of these loads a value may move from `runnext` to the ring, which changes the tail. So
        // the tail is read again.
        loop {
            let head = self.head.load(Ordering::SeqCst);
            let tail = self.tail.load(Ordering::SeqCst);
            let next = self.runnext.load(Ordering::SeqCst);
            if tail == self.tail.load(Ordering::SeqCst) {
                return head == tail && next.is_null();
            }
        }
    }

    /// Whether the ring was empty at some moment during the call.
    #[inline]
    pub(crate) fn has_only_next(&self) -> bool {
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Relaxed)
    }

    /// The owner's handle.
    ///
    /// # Safety
    /// At most one thread uses an owner's handle at a time, with a happens-before edge from one to the next.
    #[inline]
    pub(crate) unsafe fn owner(&self) -> Owner<'_, T> {
        Owner(self)
    }

    /// Takes half of the ring, at least one, and writes it to `batch`. If the ring is empty and `take_next`
    /// is set, takes `runnext`. Returns how many it took.
    pub(crate) fn steal(&self, batch: &mut [*mut T; BATCH], take_next: bool) -> usize {
        loop {
            // Acquire pairs with the release half of other threads' swaps of `head`.
            let head = self.head.load(Ordering::Acquire);
            // Acquire pairs with the owner's publication: the slots up to tail are visible.
            let tail = self.tail.load(Ordering::Acquire);
            let len = tail.wrapping_sub(head);
            if len == 0 {
                return if take_next { self.steal_next(batch) } else { 0 };
            }
            let half = len - len / 2;
            if half as usize > RUNQ_SIZE / 2 {
                continue; // head and tail were read at different times
            }
            for i in 0..half {
                let slot = &self.ring[(head.wrapping_add(i) & MASK) as usize];
                batch[i as usize] = slot.load(Ordering::Relaxed);
            }
            // Release: our reads of the slots come before the owner may write them again (R2, R3).
            let new = head.wrapping_add(half);
            if self.head.compare_exchange(head, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return half as usize;
            }
        }
    }

    fn steal_next(&self, batch: &mut [*mut T; BATCH]) -> usize {
        let next = self.runnext.load(Ordering::Relaxed);
        if next.is_null() {
            return 0;
        }
        // Acquire pairs with the swap in `put_next`.
        let taken =
            self.runnext.compare_exchange(next, ptr::null_mut(), Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            return 0;
        }
        batch[0] = next;
        1
    }

    /// The ring's head and tail: the indices of the item that is taken next and of the next one that is put.
    pub(crate) fn ends(&self) -> (u32, u32) {
        (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed))
    }

    /// For reports: up to `out.len()` of the items at the head of the ring, and how many they are. The items
    /// may be elsewhere at once, so the caller may look at what they point to only if that is always
    /// readable.
    #[cfg(feature = "debug")]
    pub(crate) fn peek_ring(&self, out: &mut [*mut T]) -> usize {
        let head = self.head.load(Ordering::Acquire);
        let len = self.tail.load(Ordering::Acquire).wrapping_sub(head) as usize;
        let count = len.min(RUNQ_SIZE).min(out.len());
        for (i, place) in out[..count].iter_mut().enumerate() {
            let slot = &self.ring[(head.wrapping_add(i as u32) & MASK) as usize];
            *place = slot.load(Ordering::Relaxed);
        }
        count
    }

    /// What is in `runnext` now. A thief compares it later, to see whether it is still there.
    pub(crate) fn peek_next(&self) -> *mut T {
        self.runnext.load(Ordering::Relaxed)
    }
}

/// The operations that only the owner of the queue's P may call.
pub(crate) struct Owner<'a, T>(&'a RunQueue<T>);

impl<T> Owner<'_, T> {
    /// Puts `item` into `runnext` and returns what was there. SeqCst: pairs with `is_empty`.
    #[inline]
    #[must_use]
    pub(crate) fn put_next(&self, item: *mut T) -> *mut T {
        self.0.runnext.swap(item, Ordering::SeqCst)
    }

    /// Takes what is in `runnext`.
    #[inline]
    pub(crate) fn take_next(&self) -> *mut T {
        let next = self.0.runnext.load(Ordering::Relaxed);
        if next.is_null() {
            return next;
        }
        // A thief may take it first. Only the owner puts, so one try is enough. AcqRel pairs with thieves.
        match self.0.runnext.compare_exchange(next, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(next) => next,
            Err(_) => ptr::null_mut(),
        }
    }

    /// Puts `item` at the end of the ring, if there is room.
    #[inline]
    #[must_use]
    pub(crate) fn try_put(&self, item: *mut T) -> bool {
        // Acquire pairs with thieves' release: they have read the slot that we overwrite (R2).
        let head = self.0.head.load(Ordering::Acquire);
        let tail = self.0.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) as usize >= RUNQ_SIZE {
            return false;
        }
        self.0.ring[(tail & MASK) as usize].store(item, Ordering::Relaxed);
        // Release: publishes the slot and what it points to.
        self.0.tail.store(tail.wrapping_add(1), Ordering::Release);
        true
    }

    /// For a caller whose `try_put` found the ring full: takes out the older half, which it moves to the
    /// global queue. `None` if thieves made room meanwhile.
    pub(crate) fn take_half_when_full(&self, batch: &mut [*mut T; BATCH]) -> Option<usize> {
        let head = self.0.head.load(Ordering::Acquire);
        let tail = self.0.tail.load(Ordering::Relaxed);
        let half = RUNQ_SIZE as u32 / 2;
        if tail.wrapping_sub(head) < half {
            return None;
        }
        for i in 0..half {
            batch[i as usize] = self.0.ring[(head.wrapping_add(i) & MASK) as usize].load(Ordering::Relaxed);
        }
        // Release: as in `steal`.
        let new = head.wrapping_add(half);
        let moved = self.0.head.compare_exchange(head, new, Ordering::AcqRel, Ordering::Relaxed);
        moved.ok().map(|_| half as usize)
    }

    /// Takes the oldest of the ring.
    #[inline]
    pub(crate) fn take(&self) -> *mut T {
        loop {
            // Acquire: as in `try_put`, the next put may reuse the slot.
            let head = self.0.head.load(Ordering::Acquire);
            let tail = self.0.tail.load(Ordering::Relaxed);
            if tail == head {
                return ptr::null_mut();
            }
            let item = self.0.ring[(head & MASK) as usize].load(Ordering::Relaxed);
            // Release: pairs with thieves' Acquire of head.
            let new = head.wrapping_add(1);
            if self.0.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return item;
            }
        }
    }

    /// The two that will be taken next, if there are several. An estimate: thieves may have taken them by
    /// now.
    #[inline]
    pub(crate) fn peek_if_several(&self) -> Option<[*const T; 2]> {
        let head = self.0.head.load(Ordering::Relaxed);
        let tail = self.0.tail.load(Ordering::Relaxed);
        let at = |index: u32| self.0.ring[(index & MASK) as usize].load(Ordering::Relaxed).cast_const();
        (tail.wrapping_sub(head) > SEVERAL).then(|| [at(head), at(head.wrapping_add(1))])
    }

    /// Whether `runnext` is free and the ring is short.
    #[inline]
    pub(crate) fn is_short_without_next(&self) -> bool {
        let head = self.0.head.load(Ordering::Relaxed);
        let tail = self.0.tail.load(Ordering::Relaxed);
        let is_long = tail.wrapping_sub(head) > LONG;
        !is_long && self.0.runnext.load(Ordering::Relaxed).is_null()
    }

    /// Whether so many wait in the ring that thieves find enough, too.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        let head = self.0.head.load(Ordering::Relaxed);
        let tail = self.0.tail.load(Ordering::Relaxed);
        tail.wrapping_sub(head) >= CROWDED
    }

    /// How many more items the ring can hold.
    pub(crate) fn room(&self) -> usize {
        let head = self.0.head.load(Ordering::Acquire);
        let tail = self.0.tail.load(Ordering::Relaxed);
        RUNQ_SIZE - tail.wrapping_sub(head) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn value(n: usize) -> *mut usize {
        (n * 8 + 8) as *mut usize
    }

    #[derive(Clone, Debug)]
    enum Op {
        Put,
        Next,
        Take,
        TakeNext,
        Steal(bool),
        Overflow,
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            8 => Just(Op::Put),
            2 => Just(Op::Next),
            3 => Just(Op::Take),
            1 => Just(Op::TakeNext),
            1 => any::<bool>().prop_map(Op::Steal),
            1 => Just(Op::Overflow),
        ];
        proptest::collection::vec(op, 0..2000)
    }

    proptest! {
        #[test]
        fn behaves_as_a_queue_with_a_fast_lane(ops in ops(), start in any::<u32>()) {
            let queue = RunQueue::<usize>::new();
            queue.head.store(start, Ordering::Relaxed);
            queue.tail.store(start, Ordering::Relaxed);
            // SAFETY: one thread.
            let owner = unsafe { queue.owner() };
            let (mut ring, mut next, mut count) = (VecDeque::new(), ptr::null_mut(), 0);
            let mut batch = [ptr::null_mut(); BATCH];
            for op in ops {
                match op {
                    Op::Put => {
                        count += 1;
                        let fits = owner.try_put(value(count));
                        prop_assert_eq!(fits, ring.len() < RUNQ_SIZE);
                        if fits { ring.push_back(value(count)); }
                    }
                    Op::Next => {
                        count += 1;
                        prop_assert_eq!(owner.put_next(value(count)), next);
                        next = value(count);
                    }
                    Op::Take => prop_assert_eq!(owner.take(), ring.pop_front().unwrap_or(ptr::null_mut())),
                    Op::TakeNext => {
                        prop_assert_eq!(owner.take_next(), next);
                        next = ptr::null_mut();
                    }
                    Op::Steal(take_next) => {
                        let got = queue.steal(&mut batch, take_next);
                        let half = ring.len() - ring.len() / 2;
                        if half > 0 {
                            prop_assert_eq!(got, half);
                            for item in &batch[..got] { prop_assert_eq!(*item, ring.pop_front().unwrap()); }
                        } else if take_next && !next.is_null() {
                            prop_assert_eq!((got, batch[0]), (1, next));
                            next = ptr::null_mut();
                        } else {
                            prop_assert_eq!(got, 0);
                        }
                    }
                    Op::Overflow => {
                        if ring.len() == RUNQ_SIZE {
                            prop_assert_eq!(owner.take_half_when_full(&mut batch), Some(RUNQ_SIZE / 2));
                            for item in &batch[..RUNQ_SIZE / 2] {
                                prop_assert_eq!(*item, ring.pop_front().unwrap());
                            }
                        }
                    }
                }
                prop_assert_eq!(queue.len(), ring.len() + usize::from(!next.is_null()));
                prop_assert_eq!(queue.is_empty(), ring.is_empty() && next.is_null());
                prop_assert_eq!(owner.room(), RUNQ_SIZE - ring.len());
            }
        }
    }

    #[test]
    fn concurrent_thieves_lose_and_duplicate_nothing() {
        const ITEMS: usize = 200_000;
        let queue = RunQueue::<usize>::new();
        let done = std::sync::atomic::AtomicBool::new(false);
        let mut seen: Vec<usize> = std::thread::scope(|scope| {
            let thieves: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let (mut mine, mut batch) = (Vec::new(), [ptr::null_mut(); BATCH]);
                        while !done.load(Ordering::Acquire) || !queue.is_empty() {
                            let got = queue.steal(&mut batch, true);
                            mine.extend(batch[..got].iter().map(|p| *p as usize));
                        }
                        mine
                    })
                })
                .collect();
            // SAFETY: the only owner.
            let owner = unsafe { queue.owner() };
            let (mut mine, mut batch) = (Vec::new(), [ptr::null_mut(); BATCH]);
            for n in 0..ITEMS {
                if n % 7 == 0 {
                    let old = owner.put_next(value(n));
                    if !old.is_null() {
                        mine.push(old as usize);
                    }
                } else {
                    while !owner.try_put(value(n)) {
                        if let Some(got) = owner.take_half_when_full(&mut batch) {
                            mine.extend(batch[..got].iter().map(|p| *p as usize));
                        }
                    }
                }
                if n % 3 == 0 {
                    let got = owner.take();
                    if !got.is_null() {
                        mine.push(got as usize);
                    }
                }
            }
            done.store(true, Ordering::Release);
            for thief in thieves {
                mine.extend(thief.join().unwrap());
            }
            mine
        });
        seen.sort_unstable();
        assert_eq!(seen, (0..ITEMS).map(|n| value(n) as usize).collect::<Vec<_>>());
    }
}
