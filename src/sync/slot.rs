//! A lock-free slot for one value. Any thread may try to fill or to empty it; nobody waits for it.
//!
//! States: EMPTY, FULL, and BUSY while a thread moves the value in or out. The thread that set BUSY owns the
//! value.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use crate::base::atomic::{AtomicU32, Ordering};

const EMPTY: u32 = 0;
const BUSY: u32 = 1;
const FULL: u32 = 2;

pub(super) struct Slot<T> {
    state: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a slot moves values from one thread to another and never gives out a reference to one.
unsafe impl<T: Send> Sync for Slot<T> {}

impl<T> Slot<T> {
    pub(super) fn new() -> Slot<T> {
        Slot { state: AtomicU32::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Fills the slot. Returns the value if the slot is not empty.
    #[inline]
    pub(super) fn put(&self, value: T) -> Option<T> {
        // Acquire pairs with the Release in `take`: the thread that emptied the slot has finished reading.
        if self.state.compare_exchange(EMPTY, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Some(value);
        }
        // SAFETY: we set BUSY, so we own the value.
        unsafe { (*self.value.get()).write(value) };
        // Release pairs with the Acquire in `take`.
        self.state.store(FULL, Ordering::Release);
        None
    }

    /// Takes the value out, if the slot is full.
    #[inline]
    pub(super) fn take(&self) -> Option<T> {
        // Load first: a compare-and-swap that fails would still take the cache line away from its user.
        if self.state.load(Ordering::Relaxed) != FULL
            || self.state.compare_exchange(FULL, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return None;
        }
        // SAFETY: we set BUSY, so we own the value; it is initialised, because the slot was FULL.
        let value = unsafe { (*self.value.get()).assume_init_read() };
        // Release pairs with the Acquire in `put`.
        self.state.store(EMPTY, Ordering::Release);
        Some(value)
    }

    /// Whether the slot was full a moment ago.
    pub(super) fn is_full(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FULL
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
