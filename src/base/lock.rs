//! The runtime's own lock: it blocks the thread, not the goroutine, and is held for tens of nanoseconds.
//!
//! A goroutine that holds one cannot be preempted, so anything that it waits for might itself wait for its P.
//! Therefore, the holder of a lock must not allocate or free memory, run user code (so no `Drop` or `Clone`
//! of user values), park, or take another lock of the same or a lower rank (the ranks are listed in
//! ARCHITECTURE.md).
//!
//! The caller of [`Lock::lock_inside`] is inside the runtime already: on g0, in a runtime section, or on a
//! thread that runs no goroutines. Other code enters the runtime first (`sched/park/runtime_lock.rs`).

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

impl<T> Lock<T> {
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
        self.raw.lock();
        Guard { lock: self, _inside: inside, _not_send: PhantomData }
    }
}

/// Access to the value of a [`Lock`].
pub(crate) struct Guard<'a, T, S = ()> {
    lock: &'a Lock<T>,
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
    }
}
