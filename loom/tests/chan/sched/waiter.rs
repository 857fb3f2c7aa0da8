//! Threads that wait. A deadline may pass at any moment: a wait that has one ends by it unless somebody was
//! faster, and loom tries both.

use std::time::Instant;

use loom::thread::Thread;

use crate::atomic::{AtomicUsize, Ordering};
use crate::sched::reason::WaitReason;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter(usize);

struct Note {
    state: AtomicUsize,
    thread: Thread,
}

const SET: usize = 1;
const PARKED: usize = 2;

loom::thread_local! {
    static NOTE: &'static Note =
        Box::leak(Box::new(Note { state: AtomicUsize::new(0), thread: loom::thread::current() }));
}

fn note() -> &'static Note {
    NOTE.with(|note| *note)
}

impl Waiter {
    pub(crate) fn current() -> Waiter {
        Waiter(std::ptr::from_ref(note()) as usize)
    }

    pub(crate) fn prefetch(self) {}

    pub(crate) fn ready(self) {
        // SAFETY: notes are leaked.
        let note = unsafe { &*(self.0 as *const Note) };
        let before = note.state.swap(SET, Ordering::AcqRel);
        assert_ne!(before, SET, "a waiter was woken twice");
        // Not if it is not there yet: loom would take it out of whatever else it waits for.
        if before == PARKED {
            note.thread.unpark();
        }
    }
}

pub(crate) fn park(_: WaitReason, _: usize) {
    let state = &note().state;
    if state.compare_exchange(0, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        while state.load(Ordering::Acquire) != SET {
            loom::thread::park();
        }
    }
    state.store(0, Ordering::Release);
}

pub(crate) const UNCLAIMED: usize = 0;
pub(crate) const TIMED_OUT: usize = 1;
pub(crate) const FIRST_FREE_CLAIM: usize = 2;

pub(crate) struct Wait {
    claim: AtomicUsize,
    waiter: Waiter,
}

impl Wait {
    pub(crate) fn new() -> Wait {
        Wait { claim: AtomicUsize::new(UNCLAIMED), waiter: Waiter::current() }
    }

    pub(crate) fn of(waiter: Waiter) -> Wait {
        Wait { claim: AtomicUsize::new(UNCLAIMED), waiter }
    }

    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }

    pub(crate) fn try_claim(&self, claim: usize) -> bool {
        self.claim.compare_exchange(UNCLAIMED, claim, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn claim(&self) -> usize {
        self.claim.load(Ordering::Acquire)
    }

    pub(crate) fn park_until(&self, reason: WaitReason, object: usize, deadline: Option<Instant>) -> usize {
        if deadline.is_none() || !self.try_claim(TIMED_OUT) {
            park(reason, object);
        }
        self.claim()
    }
}

/// As in gort.
pub(crate) struct Place {
    pub(crate) object: usize,
    pub(crate) node: usize,
}

impl Place {
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}
