//! `std::thread`, as far as the foreign tests use it.

pub use gort::{scope, sleep, spawn, yield_now, Builder, JoinHandle, Scope, ScopedJoinHandle};
// A goroutine has thread-locals of its own, so these, which live there, are its own too: std blocks a goroutine
// that parks as it blocks a thread.
pub use std::thread::{panicking, park, park_timeout, AccessError, LocalKey, Result, ThreadId};

/// std's handle, for the id and for `unpark`, and gort's, for the name.
#[derive(Clone, Debug)]
pub struct Thread {
    goroutine: gort::Goroutine,
    thread: std::thread::Thread,
}

impl Thread {
    pub fn id(&self) -> ThreadId {
        self.thread.id()
    }

    pub fn name(&self) -> Option<&str> {
        self.goroutine.name()
    }

    pub fn unpark(&self) {
        self.thread.unpark();
    }
}

pub fn current() -> Thread {
    Thread { goroutine: gort::current(), thread: std::thread::current() }
}
