//! The atomic word through which the end of a goroutine and its joiner synchronize.
//!
//! The word goes RUNNING → DONE if the goroutine ends without a joiner. Otherwise it goes RUNNING →
//! (the joiner's word) → DONE. There is at most one joiner at a time, and `finish` is called once. A joiner
//! that polls registers anew at each poll. Because both sides use one read-modify-write, either the joiner
//! sees DONE or `finish` sees the joiner.

use crate::base::atomic::{AtomicUsize, Ordering};

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

    /// Registers the joiner (a word other than 0 and 1), if there is none. Returns true if it did: then the
    /// joiner must wait until it is readied. False if the goroutine is done, or if another joiner is
    /// registered.
    #[must_use]
    pub(crate) fn wait(&self, joiner: usize) -> bool {
        debug_assert!(joiner > DONE);
        // Release: the joiner's state is visible to `finish`. Acquire pairs with `finish`: the result is
        // visible.
        self.0.compare_exchange(RUNNING, joiner, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Registers the joiner in place of an earlier one, and returns that one if there was one. `Err` if the
    /// goroutine is done: then the joiner need not wait.
    pub(crate) fn replace(&self, joiner: usize) -> Result<Option<usize>, ()> {
        debug_assert!(joiner > DONE);
        let mut now = self.0.load(Ordering::Relaxed);
        while now != DONE {
            // The orderings are those of `wait`.
            match self.0.compare_exchange(now, joiner, Ordering::AcqRel, Ordering::Acquire) {
                Ok(before) => return Ok((before != RUNNING).then_some(before)),
                Err(other) => now = other,
            }
        }
        // Acquire pairs with `finish`: the result is visible.
        self.0.load(Ordering::Acquire);
        Err(())
    }

    /// Marks the goroutine as done. Its result must be stored already. Returns the joiner to be readied, if
    /// any.
    #[must_use]
    pub(crate) fn finish(&self) -> Option<usize> {
        // Release makes the result visible to the joiner. Acquire makes the joiner's state visible to us.
        let before = self.0.swap(DONE, Ordering::AcqRel);
        (before != RUNNING).then_some(before)
    }
}
