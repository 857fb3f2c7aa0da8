//! gort's `sync`: the files under test, and stand-ins for those that read clocks, spin, or serve reports.

#[path = "../../../src/sync/holder.rs"]
pub(crate) mod holder;
#[path = "../../../src/sync/raw_condvar.rs"]
pub(crate) mod raw_condvar;
#[path = "../../../src/sync/raw_mutex.rs"]
pub(crate) mod raw_mutex;
#[path = "../../../src/sync/raw_rwlock.rs"]
pub(crate) mod raw_rwlock;
#[path = "../../../src/sync/raw_semaphore.rs"]
pub(crate) mod raw_semaphore;
#[path = "../../../src/sync/raw_wait_group.rs"]
pub(crate) mod raw_wait_group;
#[path = "../../../src/sync/rwlock_grant.rs"]
pub(crate) mod rwlock_grant;
#[path = "../../../src/sync/waitq.rs"]
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

pub(crate) mod reads {
    //! The models make no reports.

    pub(crate) fn add(_lock: usize) {}

    pub(crate) fn remove(_lock: usize) {}
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

pub mod models;

use crate::base::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use crate::base::lock::Lock;

fn new_mutex() -> raw_mutex::RawMutex {
    raw_mutex::RawMutex {
        owner: AtomicU32::new(0),
        flags: AtomicU32::new(0),
        queue: Lock::new(waitq::Queue::new()),
    }
}

fn new_rwlock() -> raw_rwlock::RawRwLock {
    raw_rwlock::RawRwLock {
        state: AtomicU64::new(0),
        holder: holder::Holder::new(),
        writer_since: AtomicU32::new(0),
        queues: Lock::new(raw_rwlock::Queues::new()),
    }
}

fn new_semaphore(permits: usize) -> raw_semaphore::RawSemaphore {
    raw_semaphore::RawSemaphore {
        state: AtomicUsize::new(permits * raw_semaphore::ONE),
        waiting: Lock::new(raw_semaphore::Waiting {
            queue: waitq::Queue::new(),
            total: permits,
            maximum: permits,
        }),
    }
}

fn new_wait_group() -> raw_wait_group::RawWaitGroup {
    raw_wait_group::RawWaitGroup { state: AtomicU64::new(0), queue: Lock::new(waitq::Queue::new()) }
}

fn new_condvar() -> raw_condvar::RawCondvar {
    raw_condvar::RawCondvar { waiting: AtomicU32::new(0), queue: Lock::new(waitq::Queue::new()) }
}
