//! gort's `sync`: the files under test, and stand-ins for those that read clocks, spin, or serve reports.

#[path = "."]
pub(crate) mod holder {
    #[path = "../../../src/sync/holder/mark.rs"]
    mod mark;
    pub(crate) use mark::*;

    pub(crate) mod reads {
        //! The models make no reports.

        pub(crate) fn add(_lock: usize) {}

        pub(crate) fn remove(_lock: usize) {}
    }
}

#[path = "."]
pub(crate) mod raw {
    #[path = "../../../src/sync/raw/condvar.rs"]
    pub(crate) mod condvar;
    #[path = "../../../src/sync/raw/mutex.rs"]
    pub(crate) mod mutex;
    #[path = "../../../src/sync/raw/rwlock.rs"]
    pub(crate) mod rwlock;
    #[path = "../../../src/sync/raw/rwlock_grant.rs"]
    pub(crate) mod rwlock_grant;
    #[path = "../../../src/sync/raw/rwlock_wait.rs"]
    pub(crate) mod rwlock_wait;
    #[path = "../../../src/sync/raw/semaphore.rs"]
    pub(crate) mod semaphore;
    #[path = "../../../src/sync/raw/wait_group.rs"]
    pub(crate) mod wait_group;
    #[path = "../../../src/sync/raw/waitq.rs"]
    pub(crate) mod waitq;

    pub(crate) mod starvation {
        //! Time does not pass in a model: a waiter starves at once, or never.

        use std::cell::Cell;

        // All threads of a model run on one OS thread.
        thread_local!(static STARVING: Cell<bool> = const { Cell::new(false) });

        pub(crate) fn set_starving(starving: bool) {
            STARVING.set(starving);
        }

        pub(crate) fn stamp() -> u32 {
            0
        }

        pub(crate) fn is_overdue(_since: u32) -> bool {
            STARVING.get()
        }

        pub(crate) struct StarvationClock;

        impl StarvationClock {
            pub(crate) fn new() -> StarvationClock {
                StarvationClock
            }

            pub(crate) fn start(&mut self) {}

            pub(crate) fn is_starving(&self) -> bool {
                STARVING.get()
            }
        }
    }

    pub(crate) mod spin {
        //! Spins for one round at most, and only in models that ask for it.

        use std::cell::Cell;

        thread_local!(static ROUNDS: Cell<u32> = const { Cell::new(0) });

        pub(crate) fn set_rounds(rounds: u32) {
            ROUNDS.set(rounds);
        }

        pub(crate) struct Spin(u32);

        impl Spin {
            pub(crate) fn new() -> Spin {
                Spin(0)
            }

            pub(crate) fn once(&mut self) -> bool {
                if self.0 >= ROUNDS.get() {
                    return false;
                }
                self.0 += 1;
                loom::thread::yield_now();
                true
            }

            pub(crate) fn reset(&mut self) {}
        }
    }
}

pub mod models;

use crate::base::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use crate::base::lock::Lock;

fn new_mutex() -> raw::mutex::RawMutex {
    raw::mutex::RawMutex {
        owner: AtomicU32::new(0),
        flags: AtomicU32::new(0),
        queue: Lock::new(raw::waitq::Queue::new()),
    }
}

fn new_rwlock() -> raw::rwlock::RawRwLock {
    raw::rwlock::RawRwLock {
        state: AtomicU64::new(0),
        holder: holder::Holder::new(),
        writer_since: AtomicU32::new(0),
        queues: Lock::new(raw::rwlock::Queues::new()),
    }
}

fn new_semaphore(permits: usize) -> raw::semaphore::RawSemaphore {
    raw::semaphore::RawSemaphore {
        state: AtomicUsize::new(permits * raw::semaphore::ONE),
        waiting: Lock::new(raw::semaphore::Waiting {
            queue: raw::waitq::Queue::new(),
            total: permits,
            maximum: permits,
        }),
    }
}

fn new_wait_group() -> raw::wait_group::RawWaitGroup {
    raw::wait_group::RawWaitGroup { state: AtomicU64::new(0), queue: Lock::new(raw::waitq::Queue::new()) }
}

fn new_condvar() -> raw::condvar::RawCondvar {
    raw::condvar::RawCondvar { waiting: AtomicU32::new(0), queue: Lock::new(raw::waitq::Queue::new()) }
}
