//! The model's `Waiter`: a thread of loom that parks.

use loom::thread::Thread;

use crate::base::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter(usize);

pub(crate) struct Parked {
    state: AtomicUsize,
    thread: Thread,
}

const SET: usize = 1;
const PARKED: usize = 2;

loom::thread_local! {
    static OWN: &'static Parked =
        Box::leak(Box::new(Parked { state: AtomicUsize::new(0), thread: loom::thread::current() }));
}

fn own() -> &'static Parked {
    OWN.with(|own| *own)
}

impl Waiter {
    pub(crate) fn current() -> Waiter {
        Waiter(std::ptr::from_ref(own()) as usize)
    }

    pub(crate) fn prefetch(self) {}

    pub(crate) fn ready(self) {
        // SAFETY: leaked.
        let parked = unsafe { &*(self.0 as *const Parked) };
        let before = parked.state.swap(SET, Ordering::AcqRel);
        assert_ne!(before, SET, "a waiter was woken twice");
        // Unpark only if it has parked here: otherwise loom would end some other wait of that thread.
        if before == PARKED {
            parked.thread.unpark();
        }
    }
}

/// Blocks the calling thread until `ready`.
pub(crate) fn park() {
    let state = &own().state;
    if state.compare_exchange(0, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        while state.load(Ordering::Acquire) != SET {
            loom::thread::park();
        }
    }
    state.store(0, Ordering::Release);
}
