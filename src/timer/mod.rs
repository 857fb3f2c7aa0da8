//! Timers. A heap ([`Timers`]) holds timers, whose memory belongs to their users, and sleeping waiters, which
//! need no timer. So a sleep allocates nothing. Each P has a heap, and so has each bubble.
//!
//! - T1. A timer is in at most one heap. `home` says in which, and changes only under that heap's lock. To
//!   touch a timer, a thread locks its home and checks that it is still its home.
//! - T2. `Timers::next` is the earliest time in that heap, or `NEVER`; written under the heap's lock.
//! - T3. A timer fires under its heap's lock, after it left the heap. So a thread that finds the timer in no
//!   heap knows that it has fired completely and will not be touched again. A timer that its heap keeps alive
//!   (`Timer::kept_by_heap`) is in no heap from just before its callback is called, and not touched after.
//!
//! This layer knows waiters as numbers only: `run_due` passes them to a function of the caller's. The
//! scheduler decides which thread runs due timers, and when (`sched/idle/due_timers.rs`).

mod heap;
mod node;

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::lock::{Guard, Lock};

use heap::{Heap, Item};
pub(crate) use node::{Fired, NEVER, Timer};

/// This many due items are taken out of the heap and prefetched before the first of them is touched. With
/// many sleepers each of them is a cache miss, and this way the misses overlap.
const BATCH: usize = 8;

/// A heap with its lock. All functions are called inside the runtime.
pub(crate) struct Timers {
    heap: Lock<Heap>,
    /// T2.
    next: AtomicU64,
}

impl Timers {
    pub(crate) const fn new() -> Timers {
        Timers { heap: Lock::new(Heap::new()), next: AtomicU64::new(NEVER) }
    }

    /// The earliest time, or `NEVER`.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// Whether the heap seems to be empty: a load without a barrier.
    #[inline]
    pub(crate) fn seems_empty(&self) -> bool {
        self.next.load(Ordering::Relaxed) == NEVER
    }

    /// Whether some thread, likely the P's owner, uses the heap just now.
    pub(crate) fn is_in_use(&self) -> bool {
        self.heap.is_locked()
    }

    /// Whether many timers are due before `then`.
    pub(crate) fn many_are_due(&self, then: u64) -> bool {
        self.next() < then && self.heap.lock_inside().has_many_before(then)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.heap.lock_inside().len()
    }

    /// Adds a timer that is in no heap. True: it is the earliest here.
    ///
    /// # Safety
    /// The timer stays in place until it has fired or [`stop`] returned.
    pub(crate) unsafe fn insert(&'static self, timer: &Timer, when: u64) -> bool {
        let heap = self.heap.lock_inside();
        timer.set_home(Some(self));
        self.push(heap, Item::Timer(timer), when)
    }

    /// Adds a waiter that sleeps until `when`; its number's lowest bit is 0. True: it is the earliest here.
    pub(crate) fn insert_sleeper(&'static self, waiter: usize, when: u64) -> bool {
        self.push(self.heap.lock_inside(), Item::Sleeper(waiter), when)
    }

    fn push(&self, mut heap: Guard<'_, Heap>, item: Item, when: u64) -> bool {
        heap.push(when, item);
        self.publish(&heap);
        heap.first() == when
    }

    fn publish(&self, heap: &Heap) {
        self.next.store(heap.first(), Ordering::SeqCst);
    }

    /// Fires the timers that are due. Calls `wake` with each waiter to wake, under the heap's lock.
    pub(crate) fn run_due(&self, now: u64, mut wake: impl FnMut(usize)) {
        if self.next() > now {
            return;
        }
        let mut heap = self.heap.lock_inside();
        let mut due = [MaybeUninit::uninit(); BATCH];
        loop {
            let mut count = 0;
            while count < BATCH && heap.first() <= now && heap.first() != NEVER {
                due[count].write(heap.pop());
                count += 1;
            }
            for item in &due[..count] {
                // SAFETY: `count` items were written.
                unsafe { item.assume_init_ref() }.prefetch();
            }
            for item in &due[..count] {
                // SAFETY: `count` items were written.
                match unsafe { item.assume_init() } {
                    // SAFETY: a timer in a heap is alive (the promise of `insert`), and we hold the lock of
                    // its home. T3: it is out of the heap, and nobody frees it before it has fired.
                    Item::Timer(timer) => unsafe { Timer::fire(timer, now, &mut wake) },
                    Item::Sleeper(waiter) => wake(waiter),
                }
            }
            if count < BATCH {
                break;
            }
        }
        self.publish(&heap);
    }

    /// Moves all timers to `to`. Returns the earliest time there. It locks the two heaps in the order of
    /// their addresses, so that two such calls cannot deadlock.
    pub(crate) fn move_all(&'static self, to: &'static Timers) -> u64 {
        let (mut source, mut target) = if std::ptr::from_ref(self) < std::ptr::from_ref(to) {
            let source = self.heap.lock_inside();
            let target = to.heap.lock_inside_beside(&source);
            (source, target)
        } else {
            let target = to.heap.lock_inside();
            (self.heap.lock_inside_beside(&target), target)
        };
        while source.len() != 0 {
            let when = source.first();
            let item = source.pop();
            if let Item::Timer(timer) = item {
                // SAFETY: a timer in a heap is alive, and we hold the locks of its old and its new home.
                unsafe { (*timer).set_home(Some(to)) };
            }
            target.push(when, item);
        }
        self.publish(&source);
        to.publish(&target);
        target.first()
    }
}

/// Stops `timer`. True: it was waiting and will not fire. False: it has fired completely (or, if its heap
/// kept it, is about to), or it was never started.
pub(crate) fn stop(timer: &Timer) -> bool {
    while let Some(home) = timer.home() {
        let mut heap = home.heap.lock_inside();
        if !timer.home().is_some_and(|now| std::ptr::eq(now, home)) {
            continue;
        }
        heap.remove(timer);
        timer.set_home(None);
        home.publish(&heap);
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_due_where_most_of_the_next_come_soon() {
        let timers: &'static Timers = Box::leak(Box::new(Timers::new()));
        let nodes: &'static [Timer] = Vec::leak((0..300).map(|_| Timer::for_test()).collect());
        let start = |nodes: &'static [Timer], when| {
            for node in nodes {
                // SAFETY: it is leaked.
                unsafe { timers.insert(node, when) };
            }
        };
        start(&nodes[..20], 1_000);
        assert!(timers.many_are_due(2_000));
        assert!(!timers.many_are_due(1_000), "none is due by then");
        start(&nodes[20..], 1_000_000);
        assert!(timers.many_are_due(2_000), "the upper levels of the heap show the earliest");
    }
}
