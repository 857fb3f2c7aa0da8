//! The part of `std::thread` that the foreign tests use, on goroutines.

pub use gort::{scope, sleep, spawn, yield_now, Builder, JoinHandle, Scope, ScopedJoinHandle};
// These items of std keep their state in thread-locals. A goroutine has its own thread-locals, so it also has
// its own state here, and std's `park` blocks a goroutine like a thread.
pub use std::thread::{panicking, park, park_timeout, AccessError, LocalKey, Result, ThreadId};

/// std's handle, which has the id and `unpark`, and gort's handle, which has the name.
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
