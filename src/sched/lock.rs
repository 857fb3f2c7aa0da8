//! The runtime's own lock: blocks the M, not the goroutine, and is held for tens of nanoseconds.
//!
//! Rules for what happens while one is held (a goroutine that holds it cannot be preempted, so whoever it
//! waits for might be waiting for its P): no allocation and no freeing, no user code (so no `Drop` or
//! `Clone` of user values), no park, no other lock of the same or a lower rank.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

use super::section::{self, Section};
use crate::sys::futex;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// A word that only one thread holds. States: FREE, HELD, CONTENDED (held, and somebody may sleep on it).
pub(crate) struct RawLock(AtomicU32);

impl RawLock {
    pub(crate) const fn new() -> RawLock {
        RawLock(AtomicU32::new(FREE))
    }

    #[inline]
    pub(crate) fn lock(&self) {
        // Acquire pairs with the Release in `unlock`.
        if self.0.compare_exchange_weak(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slow();
        }
    }

    #[cold]
    fn lock_slow(&self) {
        for _ in 0..100 {
            if self.0.load(Ordering::Relaxed) == FREE
                && self.0.compare_exchange_weak(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            futex::wait(&self.0, CONTENDED, None);
        }
    }

    #[inline]
    #[must_use]
    pub(crate) fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn unlock(&self) {
        let word: *const AtomicU32 = &self.0;
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            futex::wake(word, 1);
        }
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

    /// Takes the lock, for code that may run anywhere: a goroutine enters the runtime first and leaves it when
    /// the guard is dropped.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let section = section::enter();
        self.raw.lock();
        Guard { lock: self, _section: section }
    }

    /// Takes the lock, for code that is inside the runtime already: on g0, or in a section, or on a thread of
    /// the runtime's own.
    #[inline]
    pub(crate) fn lock_inside(&self) -> Guard<'_, T> {
        self.raw.lock();
        Guard { lock: self, _section: None }
    }
}

/// Access to the value of a [`Lock`].
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    // Dropped after the lock was released in `drop`: leaving the runtime may switch.
    _section: Option<Section>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock();
    }
}
