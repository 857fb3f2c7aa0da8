//! The runtime's own lock: blocks the M, not the goroutine, and is held for tens of nanoseconds.
//!
//! Rules for what happens while one is held (a goroutine that holds it cannot be preempted, so whoever it
//! waits for might be waiting for its P): no allocation and no freeing, no user code (so no `Drop` or
//! `Clone` of user values), no park, no other lock of the same or a lower rank.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::section::{self, Outermost, Section};
use crate::atomic::stay_away;
use crate::sys::futex;

/// A flag that only one thread holds.
///
/// Unlocking is a plain store: half the price of the lock where nobody else wants it, which is nearly always. So nobody
/// can be told that it is free. Whoever waits looks now and then, not all the time: each look slows the holder down, and
/// the next one too. When that takes so long that the kernel must have stopped the holder, it sleeps for a moment.
pub(crate) struct RawLock(AtomicBool);

const LOOKS: u32 = 16;
const NAP: Duration = Duration::from_micros(50);
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

    /// At some moment.
    pub(crate) fn is_locked(&self) -> bool {
        self.raw.0.load(Ordering::Relaxed)
    }

    /// Takes the lock, for code that may run anywhere: a goroutine enters the runtime first and leaves it when
    /// the guard is dropped.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T, Entered> {
        let section = section::enter();
        self.raw.lock();
        Guard { lock: self, _section: section, _not_send: PhantomData }
    }

    /// As [`lock`](Lock::lock), for user code: no section is open.
    #[inline(always)]
    pub(crate) fn lock_visiting(&self) -> Guard<'_, T, Option<Outermost>> {
        let section = section::visit();
        self.raw.lock();
        Guard { lock: self, _section: section, _not_send: PhantomData }
    }

    /// Takes the lock, for code that is inside the runtime already (on g0, or in a section) or cannot be (on a thread that
    /// runs no goroutines).
    #[inline]
    pub(crate) fn lock_inside(&self) -> Guard<'_, T> {
        self.raw.lock();
        Guard { lock: self, _section: (), _not_send: PhantomData }
    }
}

/// With a [`Guard`]: the section that was entered for it, unless by a foreign thread.
pub(crate) type Entered = Option<Section>;

/// Access to the value of a [`Lock`].
pub(crate) struct Guard<'a, T, S = ()> {
    lock: &'a Lock<T>,
    // Dropped after the lock was released in `drop`: leaving the runtime may switch.
    _section: S,
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
