//! What the programs are made of: Go's channels, flags that force an order, and a record of what stays in
//! reach.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gort::chan::{Receiver, Sender, bounded};
use gort::context::{Cancel, Context};
use gort::sync::{Mutex, RwLock, WaitGroup};

use crate::common::until;

/// A program, and the goroutines that it leaves behind.
pub(crate) struct Program {
    /// As in Go's list: the project and the number of the issue.
    pub(crate) name: &'static str,
    pub(crate) leaks: &'static [Leak],
    pub(crate) run: fn(&Rig),
}

/// Goroutines of one role that wait for the same kind of thing.
pub(crate) struct Leak {
    pub(crate) role: &'static str,
    pub(crate) state: &'static str,
    pub(crate) count: usize,
    /// They wait for locks whose holders never unlock, whatever else can be reached.
    pub(crate) always: bool,
}

/// They wait for a handle that only goroutines like them have.
pub(crate) const fn leak(role: &'static str, state: &'static str, count: usize) -> Leak {
    Leak { role, state, count, always: false }
}

/// They wait forever even if every handle stays in reach.
pub(crate) const fn stuck(role: &'static str, state: &'static str, count: usize) -> Leak {
    Leak { role, state, count, always: true }
}

/// One run of a program.
#[derive(Clone)]
pub(crate) struct Rig {
    /// Begins the names of its goroutines.
    prefix: Arc<str>,
    kept: Option<&'static std::sync::Mutex<Vec<Box<dyn Any + Send>>>>,
}

impl Rig {
    /// With `kept`, everything that can end a wait stays in reach.
    pub(crate) fn new(
        prefix: &str,
        kept: Option<&'static std::sync::Mutex<Vec<Box<dyn Any + Send>>>>,
    ) -> Rig {
        Rig { prefix: prefix.into(), kept }
    }

    /// Starts a goroutine. The table of leaks knows it by its role.
    #[track_caller]
    pub(crate) fn go(&self, role: &str, f: impl FnOnce() + Send + 'static) {
        drop(crate::common::named(&format!("{} {role}", self.prefix), f));
    }

    fn keep<T: Clone + Send + 'static>(&self, value: T) -> T {
        if let Some(kept) = self.kept {
            kept.lock().unwrap().push(Box::new(value.clone()));
        }
        value
    }

    pub(crate) fn chan<T: Send + 'static>(&self, capacity: usize) -> Chan<T> {
        let (sender, receiver) = bounded(capacity);
        self.keep(Chan { sender, receiver })
    }

    pub(crate) fn group(&self) -> WaitGroup {
        self.keep(WaitGroup::new())
    }

    pub(crate) fn context(&self) -> (Context, Arc<Cancel>) {
        let (context, cancel) = Context::background().with_cancel();
        self.keep((context, Arc::new(cancel)))
    }

    /// A value that goroutines share.
    pub(crate) fn share<T: Send + Sync + 'static>(&self, value: T) -> Arc<T> {
        self.keep(Arc::new(value))
    }
}

/// A channel as Go has it: each handle can send and receive. (The fields are private, so that closures
/// capture the whole handle.)
pub(crate) struct Chan<T> {
    sender: Sender<T>,
    receiver: Receiver<T>,
}

impl<T> Clone for Chan<T> {
    fn clone(&self) -> Chan<T> {
        Chan { sender: self.sender.clone(), receiver: self.receiver.clone() }
    }
}

impl<T> Chan<T> {
    pub(crate) fn sender(&self) -> &Sender<T> {
        &self.sender
    }

    pub(crate) fn receiver(&self) -> &Receiver<T> {
        &self.receiver
    }

    pub(crate) fn send(&self, value: T) {
        let _closed = self.sender.send(value);
    }

    pub(crate) fn recv(&self) -> Option<T> {
        self.receiver.recv().ok()
    }

    pub(crate) fn close(&self) {
        self.sender.close();
    }
}

/// Something has happened, once or several times.
#[derive(Clone, Default)]
pub(crate) struct Flag(Arc<AtomicUsize>);

impl Flag {
    pub(crate) fn raise(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn wait(&self) {
        self.wait_for(1);
    }

    pub(crate) fn wait_for(&self, times: usize) {
        until("the other goroutine is there", || self.0.load(Ordering::Acquire) >= times);
    }
}

/// A mutex that goroutines share.
pub(crate) fn mutex() -> Arc<Mutex<()>> {
    Arc::default()
}

/// An RwLock that goroutines share.
pub(crate) fn rwlock() -> Arc<RwLock<()>> {
    Arc::default()
}

/// Waits until a writer waits for the lock, and new readers have to wait behind it.
pub(crate) fn until_readers_wait(lock: &RwLock<()>) {
    until("readers have to wait", || lock.try_read().is_none());
}

/// Two goroutines that take two locks in opposite orders.
pub(crate) fn opposite_orders(rig: &Rig, roles: [&str; 2]) {
    let (first, second) = (mutex(), mutex());
    let orders = [(first.clone(), second.clone()), (second, first)];
    for (role, (own, other)) in roles.into_iter().zip(orders) {
        rig.go(role, move || {
            let _own = own.lock();
            until("the other one has its lock", || other.is_locked());
            drop(other.lock());
        });
    }
}

/// A reader that reads again behind a writer, and that writer.
pub(crate) fn reads_twice(rig: &Rig, reader: &str, writer: &str) {
    let lock = rwlock();
    let (has_read, own) = (Flag::default(), lock.clone());
    let reads = has_read.clone();
    rig.go(reader, move || {
        let _first = own.read();
        reads.raise();
        until_readers_wait(&own);
        drop(own.read());
    });
    rig.go(writer, move || {
        has_read.wait();
        drop(lock.write());
    });
}

/// Locks a mutex that its own goroutine holds.
pub(crate) fn locks_twice(rig: &Rig, role: &str) {
    rig.go(role, || {
        let lock = Mutex::new(());
        let _first = lock.lock();
        drop(lock.lock());
    });
}
