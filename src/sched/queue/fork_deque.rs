//! The deque of a goroutine's pending forks: the second halves of `join(a, b)` calls whose first half runs.
//!
//! It is Chase and Lev's work-stealing deque with a ring of fixed size. Its owner, the goroutine, pushes and
//! pops at the bottom; thieves steal the oldest fork at the top. The owner is a goroutine and not an M or a
//! P: between any two instructions a signal may move it to another M, and whoever runs it is the owner.
//!
//! - K1. Only the owner writes `bottom` and the ring. `top` only grows. The forks are at `top..bottom`.
//! - K2. A thief or the owner owns the fork at `top` when it has moved `top` over it. The owner owns every
//!   other fork that it has excluded from `top..bottom` while `top` was at or below it.
//! - K3. The owner writes a place of the ring only while `top` is less than a ring away. So a thief that
//!   read an overwritten place fails to move `top`.
//!
//! Both sides of the last fork: the owner lowers `bottom` and then reads `top`, a thief reads `top` and then
//! `bottom`, each with a SeqCst fence in between. So if the owner did not see that a thief has come to this
//! fork, the thief sees the lowered `bottom`. If both see it, the compare-and-swap of `top` decides.
//!
//! The deque holds pointers and never dereferences them.

use std::ptr;

use crate::base::atomic::{AtomicPtr, AtomicUsize, FORK_RING, Ordering, fence};

/// One cache line for the ends, which the owner has to itself while there are no thieves. Then the ring.
#[repr(C, align(64))]
pub(crate) struct ForkDeque<T> {
    top: AtomicUsize,
    bottom: AtomicUsize,
    ring: [AtomicPtr<T>; FORK_RING],
}

/// How an attempt to steal ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stolen<T> {
    /// The thief owns this fork.
    Fork(*mut T),
    Empty,
    /// Another thief, or the owner, was faster. There may be more.
    Lost,
}

impl<T> ForkDeque<T> {
    pub(crate) fn new() -> ForkDeque<T> {
        ForkDeque {
            top: AtomicUsize::new(0),
            bottom: AtomicUsize::new(0),
            ring: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    #[inline(always)]
    fn place(&self, index: usize) -> &AtomicPtr<T> {
        &self.ring[index % FORK_RING]
    }

    /// Adds a fork. False: the ring is full. The caller is the owner.
    #[inline(always)]
    #[must_use]
    pub(crate) fn push(&self, fork: *mut T) -> bool {
        let bottom = self.bottom.load(Ordering::Relaxed);
        // Acquire: a thief that has moved `top` over the place has read it before (K3).
        if bottom.wrapping_sub(self.top.load(Ordering::Acquire)) >= FORK_RING {
            return false;
        }
        self.place(bottom).store(fork, Ordering::Relaxed);
        // Release: a thief that sees the new bottom sees the place, and what the fork points to.
        self.bottom.store(bottom.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes the newest fork back. Null: thieves have taken all. The caller is the owner, and has pushed more
    /// forks than it has popped.
    #[inline(always)]
    pub(crate) fn pop(&self) -> *mut T {
        let bottom = self.bottom.load(Ordering::Relaxed).wrapping_sub(1);
        // Release: a thief may see this store of `bottom` and not that of an earlier push. So it is with all.
        self.bottom.store(bottom, Ordering::Release);
        // Pairs with the fence in `steal`.
        fence(Ordering::SeqCst);
        let top = self.top.load(Ordering::Relaxed);
        match bottom.wrapping_sub(top) as isize {
            1.. => self.place(bottom).load(Ordering::Relaxed),
            left => self.pop_last(bottom, top, left == 0),
        }
    }

    /// The end of [`pop`](ForkDeque::pop) if thieves may want the same fork, or have it.
    fn pop_last(&self, bottom: usize, top: usize, is_last: bool) -> *mut T {
        // Acquire: if thieves were faster, the owner sees their moves of `top` at the next push.
        let won = is_last
            && self
                .top
                .compare_exchange(top, top.wrapping_add(1), Ordering::SeqCst, Ordering::Acquire)
                .is_ok();
        self.bottom.store(bottom.wrapping_add(1), Ordering::Release);
        if won { self.place(bottom).load(Ordering::Relaxed) } else { ptr::null_mut() }
    }

    /// Takes the oldest fork.
    pub(crate) fn steal(&self) -> Stolen<T> {
        // Acquire: with a later `top`, the thief also sees what the one that moved it saw.
        let top = self.top.load(Ordering::Acquire);
        // Pairs with the fence in `pop`.
        fence(Ordering::SeqCst);
        // Acquire pairs with the Release in `push` and `pop`.
        if self.bottom.load(Ordering::Acquire).wrapping_sub(top) as isize <= 0 {
            return Stolen::Empty;
        }
        let fork = self.place(top).load(Ordering::Relaxed);
        // Release: the owner writes the place only after it has seen this (K3).
        match self.top.compare_exchange(top, top.wrapping_add(1), Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => Stolen::Fork(fork),
            Err(_) => Stolen::Lost,
        }
    }

    /// Whether no fork is pending; may be out of date at once. While the owner pops, a fork that it will not
    /// get may be missed for a moment: then a thief has it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // SeqCst: a look at the queues of the idle protocol (S2).
        let top = self.top.load(Ordering::SeqCst);
        self.bottom.load(Ordering::SeqCst).wrapping_sub(top) as isize <= 0
    }
}

#[cfg(test)]
mod tests {
    use super::{ForkDeque, Stolen};
    use crate::base::atomic::FORK_RING;

    fn fork(number: usize) -> *mut u8 {
        std::ptr::without_provenance_mut(number)
    }

    #[test]
    fn the_owner_pops_the_newest_and_a_thief_steals_the_oldest() {
        let deque = ForkDeque::new();
        assert!((1..=3).all(|number| deque.push(fork(number))));
        assert_eq!(deque.steal(), Stolen::Fork(fork(1)));
        assert_eq!((deque.pop(), deque.pop()), (fork(3), fork(2)));
        assert!(deque.pop().is_null() && deque.is_empty());
        assert_eq!(deque.steal(), Stolen::Empty);
    }

    #[test]
    fn a_full_ring_takes_no_more_until_one_is_gone() {
        let deque = ForkDeque::new();
        for round in 0..3 {
            assert!((1..=FORK_RING).all(|number| deque.push(fork(number))), "round {round}");
            assert!(!deque.push(fork(99)));
            assert_eq!(deque.steal(), Stolen::Fork(fork(1)));
            assert!(deque.push(fork(FORK_RING + 1)));
            assert!((2..=FORK_RING + 1).rev().all(|number| deque.pop() == fork(number)));
            assert!(deque.pop().is_null());
            // Each pop that found nothing belongs to a fork that was stolen.
        }
    }
}
