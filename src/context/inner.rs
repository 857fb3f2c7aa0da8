//! How a cancellation travels.
//!
//! A [`Canceler`] knows the cancelers derived from it (weakly: a context that nobody has any more costs nothing) and the
//! code to be run at its end. It ends once, under its lock: error and cause are set, `done` is closed, and the lock is
//! kept until all that are derived from it have ended too. So when `cancel` returns, everything below has ended, whoever
//! did it. Locks are taken from a canceler to those derived from it, never upwards while one is held.
//!
//! A chain of contexts may be long: cancelling and dropping are loops, not recursions.
//!
//! The locks are `gort::sync`'s: no user code runs under them (values and causes are dropped after), and runtime locks
//! are not involved.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::errors::{Cause, Error};
use crate::chan::{Receiver, Sender, bounded};
use crate::sync::Mutex;
use crate::timer::Deferred;

const LIVE: u8 = 0;
const CANCELED: u8 = 1;
const DEADLINE_EXCEEDED: u8 = 2;

/// What can end.
pub(super) struct Canceler {
    /// The next one up, and the number by which it knows this one.
    parent: Option<(Arc<Canceler>, u64)>,
    ended: AtomicU8,
    cause: OnceLock<Cause>,
    done: Receiver<()>,
    close: Sender<()>,
    derived: Mutex<Derived>,
    timer: OnceLock<Arc<Deferred>>,
}

#[derive(Default)]
struct Derived {
    next: u64,
    all: BTreeMap<u64, Child>,
}

enum Child {
    Canceler(Weak<Canceler>),
    Code(Box<dyn FnOnce() + Send>),
}

impl Canceler {
    /// One that ends with `parent`, at the latest.
    pub(super) fn derive(parent: Option<&Arc<Canceler>>) -> Arc<Canceler> {
        let make = |parent| {
            let (close, done) = bounded(0);
            Canceler {
                parent,
                ended: AtomicU8::new(LIVE),
                cause: OnceLock::new(),
                done,
                close,
                derived: Mutex::default(),
                timer: OnceLock::new(),
            }
        };
        let Some(parent) = parent else { return Arc::new(make(None)) };
        let mut derived = parent.derived.lock();
        if let Some(error) = parent.error() {
            drop(derived);
            let child = Arc::new(make(None));
            child.cancel(error, parent.cause());
            return child;
        }
        let number = derived.next;
        derived.next += 1;
        let child = Arc::new(make(Some((parent.clone(), number))));
        derived.all.insert(number, Child::Canceler(Arc::downgrade(&child)));
        child
    }

    /// Lets `code` run in a goroutine of its own when this ends, at once if it has. The number is for `forget`.
    pub(super) fn at_end(&self, code: Box<dyn FnOnce() + Send>) -> Option<u64> {
        let mut derived = self.derived.lock();
        if self.error().is_some() {
            drop(derived);
            drop(crate::spawn(code));
            return None;
        }
        let number = derived.next;
        derived.next += 1;
        derived.all.insert(number, Child::Code(code));
        Some(number)
    }

    /// True: the code of that number has not been started and will not be.
    pub(super) fn forget(&self, number: u64) -> bool {
        let child = self.derived.lock().all.remove(&number);
        child.is_some()
    }

    /// The timer that will end this.
    pub(super) fn set_timer(&self, timer: Arc<Deferred>, when: u64) {
        timer.start(when);
        if self.timer.set(timer.clone()).is_err() || self.error().is_some() {
            timer.stop();
        }
    }

    pub(super) fn done(&self) -> &Receiver<()> {
        &self.done
    }

    pub(super) fn error(&self) -> Option<Error> {
        // Acquire pairs with the Release in `end`: who sees the end sees its cause.
        match self.ended.load(Ordering::Acquire) {
            LIVE => None,
            CANCELED => Some(Error::Canceled),
            _ => Some(Error::DeadlineExceeded),
        }
    }

    pub(super) fn cause(&self) -> Option<Cause> {
        self.error()?;
        self.cause.get().cloned()
    }

    /// Ends it and all that is derived from it, unless it has ended. The first one's reasons count.
    pub(super) fn cancel(self: &Arc<Self>, error: Error, cause: Option<Cause>) {
        let cause = cause.unwrap_or_else(|| Arc::new(error));
        let mut codes = Vec::new();
        // Locked, in this order; all of them are unlocked at the end.
        let mut locked: Vec<Arc<Canceler>> = Vec::new();
        // To be dropped when nothing is locked: who goes takes the lock of its parent.
        let mut kept = Vec::new();
        let mut next = 0;
        if self.end(error, &cause, &mut locked) {
            while next < locked.len() {
                let children = std::mem::take(&mut locked[next].locked_derived().all);
                next += 1;
                for child in children.into_values() {
                    match child {
                        Child::Code(code) => codes.push(code),
                        Child::Canceler(child) => {
                            if let Some(child) = child.upgrade() {
                                child.end(error, &cause, &mut locked);
                                kept.push(child);
                            }
                        }
                    }
                }
            }
        }
        for canceler in &locked {
            // SAFETY: `end` locked it and forgot the guard.
            unsafe { canceler.derived.force_unlock() };
        }
        for canceler in &locked {
            if let Some(timer) = canceler.timer.get() {
                timer.stop();
            }
            if let Some((parent, number)) = &canceler.parent {
                parent.forget(*number);
            }
        }
        for code in codes {
            drop(crate::spawn(code));
        }
    }

    /// Ends this one alone. True: it is locked now and in `locked`. False: it had ended; when that is said, whoever ended
    /// it is through with all that is derived from it.
    fn end(self: &Arc<Self>, error: Error, cause: &Cause, locked: &mut Vec<Arc<Canceler>>) -> bool {
        let guard = self.derived.lock();
        if self.error().is_some() {
            return false;
        }
        let _ = self.cause.set(cause.clone());
        let word = if error == Error::Canceled { CANCELED } else { DEADLINE_EXCEEDED };
        self.ended.store(word, Ordering::Release);
        self.close.close();
        std::mem::forget(guard);
        locked.push(self.clone());
        true
    }

    /// # Safety (of the code that calls it)
    /// Only between `end` and the unlocking in `cancel`.
    #[allow(clippy::mut_from_ref, reason = "the lock is held by the caller")]
    fn locked_derived(&self) -> &mut Derived {
        debug_assert!(self.derived.is_locked());
        // SAFETY: `cancel` is the only caller, holds the lock without a guard, and uses the result at once.
        unsafe { &mut *self.derived.data_ptr() }
    }

    #[cfg(test)]
    pub(super) fn derived_count(&self) -> usize {
        self.derived.lock().all.len()
    }
}

impl Drop for Canceler {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.get() {
            timer.stop();
        }
        let mut parent = self.parent.take();
        // A parent that goes with us would drop its own parent, and so on.
        while let Some((canceler, number)) = parent {
            canceler.forget(number);
            parent = Arc::into_inner(canceler).and_then(|mut canceler| canceler.parent.take());
        }
    }
}
