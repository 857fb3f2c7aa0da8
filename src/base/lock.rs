//! The runtime's own lock: it blocks the thread, not the goroutine, and is held for tens of nanoseconds.
//!
//! A goroutine that holds one cannot be preempted, so whatever it waits for might wait for its P. Therefore,
//! while a lock is held: no allocation and no freeing, no user code (so no `Drop` or `Clone` of user values),
//! no park, and no other lock of the same or a lower rank (the ranks are listed in ARCHITECTURE.md).
//!
//! The caller of [`Lock::lock_inside`] is inside the runtime already: on g0, in a runtime section, or on a
//! thread that runs no goroutines. Code that may run anywhere enters the runtime first
//! (`sched/park/runtime_lock.rs`).

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::atomic::stay_away;
use crate::sys::futex;

/// A flag that one thread at a time holds.
///
/// Unlocking is a plain store: half the price of the lock where nobody else wants it, which is nearly always.
/// So a waiter cannot be told that the lock is free. It looks now and then, not all the time: each look slows
/// the holder down, and the next waiter too. When that takes so long that the kernel must have stopped the
/// holder, the waiter sleeps for a moment.
pub(crate) struct RawLock(AtomicBool);

/// A waiter looks this often before it sleeps between looks.
const LOOKS: u32 = 16;
/// How long it then sleeps: longer than any holder that runs needs.
const NAP: Duration = Duration::from_micros(50);
/// What it sleeps on: nobody wakes it.
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

    /// Whether some thread holds it, at some moment during the call.
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
    // Dropped after `drop` has released the lock: leaving the runtime may switch.
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
