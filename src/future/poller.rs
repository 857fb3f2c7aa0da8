//! Who polls: wakers and Waiters.
//!
//! A waker of gort's own is a Waiter's number, nothing else: see `sched/futureword.rs`. A future that waits for something
//! of gort's (a channel, a timer, a descriptor) turns the waker of its context into a Waiter that is put where goroutines
//! are put. If it is one of ours that costs nothing; any other waker is packed into code that the runtime runs.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::sched::waiter::Waiter;
use crate::timer::Deferred;

static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |data| RawWaker::new(data, &VTABLE),
    |data| Waiter::from_word(data as usize).ready(),
    |data| Waiter::from_word(data as usize).ready(),
    |_data| {},
);

/// The waker of somebody who polls.
pub(super) fn waker(waiter: Waiter) -> Waker {
    let data = waiter.as_poller().to_word() as *const ();
    // SAFETY: as a poller, the Waiter may be readied by anybody, at any time and any number of times.
    unsafe { Waker::new(data, &VTABLE) }
}

/// The waker of something that is polled by others when it is readied.
#[cfg(feature = "http")]
pub(super) fn waker_of(hook: Waiter) -> Waker {
    // SAFETY: as its maker promised, the Waiter may be readied by anybody, at any time and any number of times.
    unsafe { Waker::new(hook.to_word() as *const (), &VTABLE) }
}

/// A place for one who polls: its Waiter, and its waker to compare with.
pub(crate) struct Polled {
    waiter: Waiter,
    /// `None`: the waker is one of ours.
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
        Polled { waiter: Waiter::from_code(code), other: Some(waker.clone()) }
    }

    /// Who is to be readied, once at most if the waker is not ours.
    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }

    pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
        match &self.other {
            Some(other) => other.will_wake(waker),
            None => std::ptr::eq(waker.vtable(), &VTABLE) && waker.data() as usize == self.waiter.to_word(),
        }
    }

    /// Nobody will ready it.
    ///
    /// # Safety
    /// It was published nowhere, or has been taken back.
    pub(crate) unsafe fn retract(self) {
        // SAFETY: the caller's.
        drop(unsafe { self.waiter.into_code() });
    }
}
