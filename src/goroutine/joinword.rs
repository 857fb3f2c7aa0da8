//! The word through which a goroutine's end meets its joiner.
//!
//! RUNNING → DONE when it ends; or RUNNING → (the joiner's word) → DONE. There is at most one joiner at a time, and
//! `finish` is called once. A joiner that polls registers anew at each poll. Because both sides use one read-modify-write, either the joiner sees DONE or `finish` sees the
//! joiner.

use crate::atomic::{AtomicUsize, Ordering};

const RUNNING: usize = 0;
const DONE: usize = 1;

pub(crate) struct JoinWord(AtomicUsize);

impl JoinWord {
    pub(crate) fn new() -> JoinWord {
        JoinWord(AtomicUsize::new(RUNNING))
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Acquire pairs with `finish`: the result is visible.
        self.0.load(Ordering::Acquire) == DONE
    }

    /// Registers the joiner (a word other than 0 and 1). True: it must wait until it is readied.
    #[must_use]
    pub(crate) fn wait(&self, joiner: usize) -> bool {
        debug_assert!(joiner > DONE);
        // Release: the joiner's state is visible to `finish`. Acquire: pairs with it.
        self.0.compare_exchange(RUNNING, joiner, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Registers the joiner in place of an earlier one, which is returned if there was one. `Err`: it need not wait.
    pub(crate) fn replace(&self, joiner: usize) -> Result<Option<usize>, ()> {
        debug_assert!(joiner > DONE);
        let mut now = self.0.load(Ordering::Relaxed);
        while now != DONE {
            // As in `wait`.
            match self.0.compare_exchange(now, joiner, Ordering::AcqRel, Ordering::Acquire) {
                Ok(before) => return Ok((before != RUNNING).then_some(before)),
                Err(other) => now = other,
            }
        }
        // Pairs with `finish`.
        self.0.load(Ordering::Acquire);
        Err(())
    }

    /// The goroutine has ended and its result is stored. Returns the joiner to be readied.
    #[must_use]
    pub(crate) fn finish(&self) -> Option<usize> {
        // Release: the result is visible to the joiner. Acquire: the joiner's state is visible to us.
        let before = self.0.swap(DONE, Ordering::AcqRel);
        (before != RUNNING).then_some(before)
    }
}
