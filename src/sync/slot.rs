//! A place for one value, which anybody may try to fill or to empty and nobody waits for.
//!
//! States: EMPTY, FULL, and BUSY while somebody moves the value. The one that made it BUSY owns the value.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use crate::atomic::{AtomicU32, Ordering};

const EMPTY: u32 = 0;
const BUSY: u32 = 1;
const FULL: u32 = 2;

pub(super) struct Slot<T> {
    state: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: it hands values over and never shares one.
unsafe impl<T: Send> Sync for Slot<T> {}

impl<T> Slot<T> {
    pub(super) fn new() -> Slot<T> {
        Slot { state: AtomicU32::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Fills the slot. The value comes back if it is not empty.
    #[inline]
    pub(super) fn put(&self, value: T) -> Option<T> {
        // Acquire pairs with the Release in `take`: whoever emptied it has finished reading.
        if self.state.compare_exchange(EMPTY, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Some(value);
        }
        // SAFETY: BUSY is ours.
        unsafe { (*self.value.get()).write(value) };
        // Release pairs with the Acquire in `take`.
        self.state.store(FULL, Ordering::Release);
        None
    }

    /// Empties the slot, if it is full.
    #[inline]
    pub(super) fn take(&self) -> Option<T> {
        // A look first: to try in vain would take the line from whoever uses it.
        if self.state.load(Ordering::Relaxed) != FULL
            || self.state.compare_exchange(FULL, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return None;
        }
        // SAFETY: BUSY is ours, and it was FULL.
        let value = unsafe { (*self.value.get()).assume_init_read() };
        // Release pairs with the Acquire in `put`.
        self.state.store(EMPTY, Ordering::Release);
        Some(value)
    }

    /// Whether it was full a moment ago.
    pub(super) fn is_full(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FULL
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
