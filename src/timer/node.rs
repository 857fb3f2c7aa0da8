//! A single timer. Its user owns its memory.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Timers;

/// A time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// The result of firing a timer: the number of a waiter to wake, or nothing.
pub(crate) type Fired = Option<usize>;

/// The function that a timer calls when it fires. It runs under the heap's lock, on g0 or sysmon, so it must
/// neither block nor allocate.
pub(crate) type Callback = unsafe fn(data: *const (), now: u64) -> Fired;

pub(crate) struct Timer {
    /// Its place in the heap.
    pub(super) index: Cell<usize>,
    home: AtomicPtr<Timers>,
    callback: Callback,
    data: *const (),
    /// The callback may free the timer: see [`Timer::kept_by_heap`].
    gone_when_fired: bool,
}

// SAFETY: the cells are guarded by the lock of the heap it is in (T1).
unsafe impl Sync for Timer {}
// SAFETY: as above; the data belongs to the code that supplied the callback.
unsafe impl Send for Timer {}

impl Timer {
    /// A timer that calls `callback(data, now)` when it fires.
    pub(crate) fn new(callback: Callback, data: *const ()) -> Timer {
        let home = AtomicPtr::new(ptr::null_mut());
        Timer { index: Cell::new(0), home, callback, data, gone_when_fired: false }
    }

    /// As [`new`](Timer::new), but the heap keeps the timer alive (it holds a reference), and the callback
    /// takes that reference over. So a thread that finds the timer in no heap only knows that the callback
    /// was called or is about to be.
    pub(crate) fn kept_by_heap(callback: Callback, data: *const ()) -> Timer {
        Timer { gone_when_fired: true, ..Timer::new(callback, data) }
    }

    /// Whether it is in a heap: it will fire.
    pub(crate) fn is_waiting(&self) -> bool {
        self.home().is_some()
    }

    /// The heap that it is in.
    pub(super) fn home(&self) -> Option<&'static Timers> {
        // Acquire pairs with the release in `set_home`: a thread that finds it in no heap sees everything
        // that its callback did (unless the heap kept it). SAFETY: heaps live in Ps, which are never freed,
        // and in bubbles, which outlive the timers in them.
        unsafe { self.home.load(Ordering::Acquire).as_ref() }
    }

    pub(super) fn set_home(&self, home: Option<&'static Timers>) {
        let home = home.map_or(ptr::null_mut(), |home| ptr::from_ref(home).cast_mut());
        self.home.store(home, Ordering::Release);
    }

    /// Fires `this`, and calls `wake` with the waiter to wake, if there is one. It clears `home` last, and
    /// must not touch the timer or its data after that. If the heap kept the timer, it clears `home` first,
    /// and must not touch the timer or its data after the callback.
    ///
    /// # Safety
    /// It was just taken out of a heap whose lock the caller holds.
    pub(super) unsafe fn fire(this: *const Timer, now: u64, wake: &mut impl FnMut(usize)) {
        // SAFETY: the timer lives until its home is cleared, or until the callback takes it over.
        let Timer { callback, data, gone_when_fired, .. } = unsafe { &*this };
        let (callback, data, gone_when_fired) = (*callback, *data, *gone_when_fired);
        if gone_when_fired {
            // SAFETY: as above.
            unsafe { (*this).set_home(None) };
        }
        // SAFETY: the heap kept the data alive, or the data is valid as long as the timer is not seen to have
        // fired.
        if let Some(waiter) = unsafe { callback(data, now) } {
            wake(waiter);
        }
        if !gone_when_fired {
            // SAFETY: as above.
            unsafe { (*this).set_home(None) };
        }
    }

    #[cfg(test)]
    pub(super) fn for_test() -> Timer {
        unsafe fn nothing(_: *const (), _: u64) -> Fired {
            None
        }
        Timer::new(nothing, ptr::null())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A callback that records whether its timer is in a heap while it is called.
    unsafe fn look(data: *const (), _: u64) -> Fired {
        // SAFETY: see the test.
        let (timer, was_waiting) = unsafe { &*data.cast::<(Cell<*const Timer>, Cell<Option<bool>>)>() };
        // SAFETY: as above.
        was_waiting.set(Some(unsafe { &*timer.get() }.is_waiting()));
        None
    }

    #[test]
    fn what_the_callback_gives_away_is_not_touched_after_it() {
        for (make, waiting) in [(Timer::new as fn(_, _) -> _, true), (Timer::kept_by_heap, false)] {
            let seen = (Cell::new(ptr::null()), Cell::new(None));
            let timer = make(look, ptr::from_ref(&seen).cast());
            seen.0.set(ptr::from_ref(&timer));
            timer.set_home(Some(Box::leak(Box::new(Timers::new()))));
            // SAFETY: nobody else has it.
            unsafe { Timer::fire(&timer, 0, &mut |_| unreachable!("nobody waits")) };
            assert_eq!(seen.1.get(), Some(waiting));
            assert!(!timer.is_waiting());
        }
    }
}
