//! Converts between the `Waker`s of futures and gort's Waiters.
//!
//! A waker made by gort consists only of a Waiter's word: see `sched/word/future_word.rs`. A future that
//! waits for a gort primitive (a channel, a timer, a descriptor) turns the waker of its context into a
//! Waiter, and puts it into the same queue as a goroutine's Waiter. For a waker made by gort that costs
//! nothing; any other waker is wrapped in a [`Deferred`] that the runtime runs.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::goroutine::deferred::Deferred;
use crate::sched::types::waiter::Waiter;

static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |data| RawWaker::new(data, &VTABLE),
    |data| Waiter::from_word(data as usize).ready(),
    |data| Waiter::from_word(data as usize).ready(),
    |_data| {},
);

/// The waker of a goroutine or thread that polls a future.
pub(crate) fn waker(waiter: Waiter) -> Waker {
    let data = waiter.as_poller().to_word() as *const ();
    // SAFETY: any thread may ready a Waiter made by `as_poller`, at any time and any number of times.
    unsafe { Waker::new(data, &VTABLE) }
}

/// A waker that readies this hook; the hook lets another party poll the future.
#[cfg(feature = "http")]
pub(crate) fn waker_of(hook: Waiter) -> Waker {
    // SAFETY: its maker has promised that any thread may ready this Waiter, at any time and any number of
    // times.
    unsafe { Waker::new(hook.to_word() as *const (), &VTABLE) }
}

/// The Waiter for the waker of a poll, and that waker, to compare with the waker of the next poll.
pub(crate) struct Polled {
    waiter: Waiter,
    /// The waker, if gort did not make it.
    other: Option<Waker>,
}

impl Polled {
    pub(crate) fn new(waker: &Waker) -> Polled {
        if std::ptr::eq(waker.vtable(), &VTABLE) {
            return Polled { waiter: Waiter::from_word(waker.data() as usize), other: None };
        }
        let once = Mutex::new(Some(waker.clone()));
        let code = Deferred::new(Box::new(move || {
            let waker = once.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }));
        Polled { waiter: code.into_waiter(), other: Some(waker.clone()) }
    }

    /// The Waiter to be readied. If gort did not make the waker, it may be readied only once.
    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }

    pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
        match &self.other {
            Some(other) => other.will_wake(waker),
            None => std::ptr::eq(waker.vtable(), &VTABLE) && waker.data() as usize == self.waiter.to_word(),
        }
    }

    /// Drops a waiter that nobody will ready.
    ///
    /// # Safety
    /// The waiter was never published, or has been taken back.
    pub(crate) unsafe fn retract(self) {
        // SAFETY: the caller promises that nobody will ready the waiter.
        unsafe { self.waiter.retract() };
    }
}
