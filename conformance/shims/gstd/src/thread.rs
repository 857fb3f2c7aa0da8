//! The part of `std::thread` that the foreign tests use, on goroutines.

use std::io;
use std::sync::{Arc, OnceLock};

pub use gort::{scope, sleep, yield_now, Scope, ScopedJoinHandle};
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

/// gort's handle, with std's `thread`.
#[derive(Debug)]
pub struct JoinHandle<T> {
    inner: gort::JoinHandle<T>,
    /// Set by the goroutine when it begins.
    thread: Arc<OnceLock<Thread>>,
}

impl<T> JoinHandle<T> {
    pub fn join(self) -> Result<T> {
        self.inner.join()
    }

    pub fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }

    pub fn thread(&self) -> &Thread {
        self.thread.wait()
    }
}

/// gort's builder, whose `spawn` returns our handle.
#[derive(Debug, Default)]
pub struct Builder(gort::Builder);

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }

    pub fn name(self, name: String) -> Builder {
        Builder(self.0.name(name))
    }

    pub fn stack_size(self, bytes: usize) -> Builder {
        Builder(self.0.stack_size(bytes))
    }

    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let thread = Arc::new(OnceLock::new());
        let own = Arc::clone(&thread);
        let inner = self.0.spawn(move || {
            own.get_or_init(current);
            drop(own);
            f()
        })?;
        Ok(JoinHandle { inner, thread })
    }

    #[track_caller]
    pub fn spawn_scoped<'scope, 'env, F, T>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.0.spawn_scoped(scope, f)
    }
}

#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Builder::new().spawn(f).expect("a goroutine can be spawned")
}
