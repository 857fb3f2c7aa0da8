//! Giving way to somebody who is in the middle of a few instructions.

use crossbeam_utils::Backoff;

/// Waits for another thread to finish what takes it nanoseconds, unless it was interrupted: then it needs a
/// processor, perhaps ours. Never used while a lock is held.
pub(crate) struct Relax(Backoff);

impl Relax {
    pub(crate) fn new() -> Relax {
        Relax(Backoff::new())
    }

    /// Spins for a moment, and for later calls gives the processor away.
    #[cold]
    pub(crate) fn relax(&mut self) {
        self.0.snooze();
    }
}
