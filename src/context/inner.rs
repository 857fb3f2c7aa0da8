//! The tree of cancelers, through which a cancellation spreads from a context to all contexts derived from
//! it.
//!
//! A [`Canceler`] knows the cancelers derived from it and the functions to run at its end. It holds the
//! derived ones by weak references, so a context that nobody uses any more costs nothing. A canceler ends
//! once, under its lock. The caller of `cancel` sets the error and the cause, closes `done`, and keeps the
//! lock until all derived cancelers have ended too. So when `cancel` returns, all derived contexts have
//! ended, even if another caller ended them. Locks are taken from a canceler down to those derived from it,
//! never upwards while one is held.
//!
//! A chain of contexts may be long, so cancelling and dropping use loops, not recursion.
//!
//! The locks are `gort::sync`'s, not runtime locks. No user code runs under them: values and causes are
//! dropped after the unlock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::errors::{Cause, Error};
use crate::chan::{Receiver, Sender, bounded};
use crate::goroutine::deferred::Deferred;
use crate::sync::Mutex;

const LIVE: u8 = 0;
const CANCELED: u8 = 1;
const DEADLINE_EXCEEDED: u8 = 2;

/// The part of a context that can end. Clones of the context, and contexts that only add values, share it.
pub(super) struct Canceler {
    /// The canceler that this one is derived from, and this one's number in its `derived` map.
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
    /// A new canceler that ends when `parent` ends, at the latest.
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

    /// Runs `code` in a goroutine of its own when this canceler ends. If it has ended, runs it at once and
    /// returns `None`. Otherwise returns the number to pass to `forget`.
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

    /// Removes the child or code of this number. For code, true means that it has not been started and will
    /// not be.
    pub(super) fn forget(&self, number: u64) -> bool {
        let child = self.derived.lock().all.remove(&number);
        child.is_some()
    }

    /// Starts the timer that ends this canceler at `when`, in nanoseconds of the clock.
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
        // Acquire pairs with the Release in `end`: a thread that sees the end also sees its cause.
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

    /// Ends this canceler and all that are derived from it, unless it has ended already. The error and cause
    /// of the first call stay.
    pub(super) fn cancel(self: &Arc<Self>, error: Error, cause: Option<Cause>) {
        let cause = cause.unwrap_or_else(|| Arc::new(error));
        let mut codes = Vec::new();
        // The cancelers that we have locked, in this order. All are unlocked at the end.
        let mut locked: Vec<Arc<Canceler>> = Vec::new();
        // References to be dropped when nothing is locked: the drop of a canceler takes the lock of its
        // parent.
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
            // SAFETY: `end` has locked it and forgotten the guard.
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

    /// Ends this canceler alone. Returns true if it did: then the canceler is locked and in `locked`. Returns
    /// false if it had ended before: then all that are derived from it have ended, too, because the caller
    /// that ended it has released its lock.
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

    /// The data under the lock, which `cancel` holds without a guard.
    ///
    /// # Safety (of the code that calls it)
    /// Only `cancel` may call this, between `end` and the unlock.
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
        // If ours is the last reference to the parent, its drop would drop its own parent, and so on. The
        // loop avoids that recursion.
        while let Some((canceler, number)) = parent {
            canceler.forget(number);
            parent = Arc::into_inner(canceler).and_then(|mut canceler| canceler.parent.take());
        }
    }
}
