//! The runtime's own lock: it blocks the thread, not the goroutine, and is held for tens of nanoseconds.
//!
//! A goroutine that holds one cannot be preempted, so anything that it waits for might itself wait for its P.
//! Therefore, the holder of a lock must not allocate or free memory, run user code (so no `Drop` or `Clone`
//! of user values), park, or take another lock of the same or a lower rank (the ranks are listed in
//! ARCHITECTURE.md).
//!
//! The caller of [`Lock::lock_inside`] is inside the runtime already: on g0, in a runtime section, or on a
//! thread that runs no goroutines. Other code enters the runtime first (`sched/run/runtime_section.rs`).

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::atomic::stay_away;
use crate::sys::futex;

/// A lock without a value, of one byte.
///
/// Unlocking is a plain store, which halves the cost of an uncontended lock, and nearly all are. The price is
/// that the holder cannot wake a waiter. A waiter looks now and then, not all the time, because each look
/// slows down the holder and the other waiters. If it has to wait so long that the kernel must have
/// descheduled the holder, it sleeps between looks.
pub(crate) struct RawLock(AtomicBool);

/// A waiter looks this many times before it begins to sleep between looks.
const LOOKS: u32 = 16;
/// How long a waiter sleeps between looks: longer than any running holder keeps the lock.
const NAP: Duration = Duration::from_micros(50);
/// The futex word that a waiter sleeps on until its timeout: no thread wakes it.
static NEVER_CHANGES: AtomicU32 = AtomicU32::new(0);

impl RawLock {
    pub(crate) const fn new() -> RawLock {
        RawLock(AtomicBool::new(false))
    }

    #[inline]
    pub(crate) fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow();
        }
    }

    #[cold]
    fn lock_slow(&self) {
        let mut looks = 0;
        loop {
            if !self.0.load(Ordering::Relaxed) && self.try_lock() {
                return;
            }
            looks += 1;
            if looks < LOOKS {
                stay_away(1);
            } else {
                futex::wait(&NEVER_CHANGES, 0, Some(NAP));
            }
        }
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_lock(&self) -> bool {
        // Acquire pairs with the Release in `unlock`.
        !self.0.swap(true, Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A value behind a runtime lock.
pub(crate) struct Lock<T> {
    raw: RawLock,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives access to one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: it owns its value.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T: Ranked> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock { raw: RawLock::new(), value: UnsafeCell::new(value) }
    }

    /// Whether a thread holds it; may be out of date at once.
    pub(crate) fn is_locked(&self) -> bool {
        self.raw.0.load(Ordering::Relaxed)
    }

    /// Takes the lock. The caller is inside the runtime: see the head of this file.
    #[inline]
    pub(crate) fn lock_inside(&self) -> Guard<'_, T> {
        self.lock_with(())
    }

    /// Takes the lock. `inside` is what keeps the caller inside the runtime; it is dropped after the lock is
    /// released.
    #[inline(always)]
    pub(crate) fn lock_with<S>(&self, inside: S) -> Guard<'_, T, S> {
        let held = Held::enter(T::RANK);
        self.raw.lock();
        Guard { lock: self, held, _inside: inside, _not_send: PhantomData }
    }

    /// Takes a lock of the same rank as one that the caller holds. The caller keeps an order of its own among
    /// those.
    pub(crate) fn lock_inside_beside<U>(&self, _other: &Guard<'_, U>) -> Guard<'_, T> {
        self.raw.lock();
        Guard { lock: self, held: Held::unchecked(), _inside: (), _not_send: PhantomData }
    }
}

/// The place of a lock in the order in which a thread takes locks: upwards only. ARCHITECTURE.md has the
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// A thread that takes it holds no other, and takes no other while it holds it.
    Alone,
    /// Stop-and-start of a timer's function.
    Arming,
    /// Timers and sleepers.
    TimerHeap,
    /// What a timer that fires may touch: a bubble, the queue of timers' functions, the crew.
    Fired,
    /// The scheduler lock.
    Sched,
}

/// What a lock guards says what the lock's rank is.
pub(crate) trait Ranked {
    const RANK: Rank;
}

/// In debug builds, checks the ranks of the locks that a thread holds. It lives as long as the lock is held.
struct Held {
    /// What was the highest before; `None` if this one does not count.
    #[cfg(debug_assertions)]
    before: Option<u8>,
}

#[cfg(debug_assertions)]
mod highest {
    use std::cell::Cell;

    thread_local! {
        /// One more than the highest rank that the thread (or goroutine) holds; 0 if it holds no lock.
        static HIGHEST: Cell<u8> = const { Cell::new(0) };
    }

    /// Not inline: a shared-TLS goroutine may have changed threads in the function that calls.
    #[inline(never)]
    pub(super) fn get() -> u8 {
        HIGHEST.get()
    }

    /// Not inline: as [`get`].
    #[inline(never)]
    pub(super) fn set(highest: u8) {
        HIGHEST.set(highest);
    }
}

/// Whether a thread may take a lock of this rank; `highest` is one more than the highest rank that it holds.
#[cfg(debug_assertions)]
fn may_take(rank: Rank, highest: u8) -> bool {
    if rank == Rank::Alone { highest == 0 } else { highest < rank as u8 + 1 }
}

impl Held {
    #[inline(always)]
    fn enter(rank: Rank) -> Held {
        #[cfg(debug_assertions)]
        {
            let before = highest::get();
            if !may_take(rank, before) {
                super::throw("lock", format_args!("{rank:?} is taken under a lock of rank {}", before - 1));
            }
            highest::set(if rank == Rank::Alone { u8::MAX } else { rank as u8 + 1 });
            Held { before: Some(before) }
        }
        #[cfg(not(debug_assertions))]
        {
            let _ = rank;
            Held {}
        }
    }

    /// For a lock beside another of the same rank. The two may be released in any order.
    fn unchecked() -> Held {
        Held {
            #[cfg(debug_assertions)]
            before: None,
        }
    }

    #[inline(always)]
    fn leave(&self) {
        #[cfg(debug_assertions)]
        if let Some(before) = self.before {
            highest::set(before);
        }
    }
}

/// Access to the value of a [`Lock`].
pub(crate) struct Guard<'a, T, S = ()> {
    lock: &'a Lock<T>,
    held: Held,
    // Dropped after `drop` has released the lock, because leaving the runtime may switch to another
    // goroutine.
    _inside: S,
    _not_send: PhantomData<*const ()>,
}

impl<T, S> Deref for Guard<'_, T, S> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, S> DerefMut for Guard<'_, T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T, S> Drop for Guard<'_, T, S> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock();
        self.held.leave();
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::{Held, Rank, may_take};

    #[test]
    fn ranks_go_up_and_come_down_again() {
        let arming = Held::enter(Rank::Arming);
        let heap = Held::enter(Rank::TimerHeap);
        let sched = Held::enter(Rank::Sched);
        [sched, heap, arming].iter().for_each(Held::leave);
        let alone = Held::enter(Rank::Alone);
        alone.leave();
        Held::enter(Rank::Arming).leave();
    }

    #[test]
    fn a_lower_rank_and_the_same_rank_are_refused() {
        let under = |rank: Rank| rank as u8 + 1;
        assert!(may_take(Rank::Sched, under(Rank::Fired)) && may_take(Rank::Alone, 0));
        assert!(!may_take(Rank::Fired, under(Rank::Sched)));
        assert!(!may_take(Rank::TimerHeap, under(Rank::TimerHeap)));
        assert!(!may_take(Rank::Alone, under(Rank::Arming)));
        assert!(!may_take(Rank::Sched, u8::MAX), "a lock that is held alone");
    }
}
