//! A Note: a one-shot wake-up for one sleeping thread. Ms and foreign threads block on Notes.
//!
//! States: EMPTY → SET (set before the wait), EMPTY → SLEEPING → SET (set while waiting), and SET →
//! EMPTY when the waiter takes the wake-up. At most one thread waits on a Note at a time; any thread may set
//! it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::sys::futex;

const EMPTY: u32 = 0;
const SET: u32 = 1;
const SLEEPING: u32 = 2;

pub(crate) struct Note(AtomicU32);

impl Note {
    pub(crate) const fn new() -> Note {
        Note(AtomicU32::new(EMPTY))
    }

    /// Wakes the waiter, or lets its next wait return at once. Several sets before a wait count as one. The
    /// waiter may free the Note as soon as it sees the new value; the futex wake only uses its address.
    pub(crate) fn set(&self) {
        let word: *const AtomicU32 = &self.0;
        // Release pairs with the Acquire in `take`: the woken thread sees what the setter did.
        if self.0.swap(SET, Ordering::Release) == SLEEPING {
            futex::wake(word, 1);
        }
    }

    /// Whether a thread sleeps on it that has not been woken yet.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.load(Ordering::SeqCst) == SLEEPING
    }

    fn take(&self) -> bool {
        self.0.compare_exchange(SET, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Blocks the thread until the Note is set, and clears it.
    pub(crate) fn wait(&self) {
        let set = self.wait_until(None);
        debug_assert!(set);
    }

    /// As `wait`, but gives up at the deadline: then the result is false and the Note is not set.
    pub(crate) fn wait_until(&self, deadline: Option<Instant>) -> bool {
        loop {
            if self.take() {
                return true;
            }
            let timeout = match deadline {
                None => None,
                Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => Some(left),
                    _ => {
                        // Leave EMPTY behind, unless a `set` came first.
                        let _ =
                            self.0.compare_exchange(SLEEPING, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
                        return self.take();
                    }
                },
            };
            match self.0.compare_exchange(EMPTY, SLEEPING, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) | Err(SLEEPING) => futex::wait(&self.0, SLEEPING, timeout),
                Err(_) => {}
            }
        }
    }
}
