//! One timer, wherever its user keeps it.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Timers;
use crate::sched::g::G;

/// A time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// What a timer that fired asks for.
pub(crate) enum Fire {
    /// This goroutine was parked and shall run.
    Ready(&'static G),
    /// It did all there was to do.
    Nothing,
}

/// What a timer does when it fires. It runs under the heap's lock, on g0 or sysmon: it neither blocks nor allocates.
pub(crate) type Callback = unsafe fn(data: *const (), now: u64) -> Fire;

pub(crate) struct Timer {
    /// Its place in the heap.
    pub(super) index: Cell<usize>,
    home: AtomicPtr<Timers>,
    callback: Callback,
    data: *const (),
}

// SAFETY: the cells are guarded by the lock of the heap it is in (T1).
unsafe impl Sync for Timer {}
// SAFETY: as above; the data belongs to whoever gave the callback.
unsafe impl Send for Timer {}

impl Timer {
    /// A timer that calls `callback(data, now)` when it fires.
    pub(crate) fn new(callback: Callback, data: *const ()) -> Timer {
        Timer { index: Cell::new(0), home: AtomicPtr::new(ptr::null_mut()), callback, data }
    }

    /// Whether it is in a heap: it will fire.
    pub(crate) fn is_waiting(&self) -> bool {
        self.home().is_some()
    }

    /// The heap that it is in.
    pub(super) fn home(&self) -> Option<&'static Timers> {
        // Acquire pairs with the release in `set_home`: who finds it in no heap sees all that its firing did.
        // SAFETY: Ps are never freed; a bubble goes after the goroutines and timers in it.
        unsafe { self.home.load(Ordering::Acquire).as_ref() }
    }

    pub(super) fn set_home(&self, home: Option<&'static Timers>) {
        let home = home.map_or(ptr::null_mut(), |home| ptr::from_ref(home).cast_mut());
        self.home.store(home, Ordering::Release);
    }

    /// Fires. The data must not be touched after `home` is cleared, which comes last, except through what the
    /// callback handed over.
    ///
    /// # Safety
    /// It was just taken out of a heap whose lock the caller holds.
    pub(super) unsafe fn fire(&self, now: u64) -> Fire {
        // SAFETY: the data is valid as long as the timer has not been seen to have fired.
        let fired = unsafe { (self.callback)(self.data, now) };
        self.set_home(None);
        fired
    }

    #[cfg(test)]
    pub(super) fn for_test() -> Timer {
        unsafe fn nothing(_: *const (), _: u64) -> Fire {
            Fire::Nothing
        }
        Timer::new(nothing, ptr::null())
    }
}
