//! Backing off while another thread is in the middle of a few instructions.

use crossbeam_utils::Backoff;

/// Waits for another thread to finish a step that takes nanoseconds. If the kernel interrupted that thread,
/// it needs a processor to go on, perhaps ours: so the wait spins first and then yields. Never used while a
/// lock is held.
pub(crate) struct Relax(Backoff);

impl Relax {
    pub(crate) fn new() -> Relax {
        Relax(Backoff::new())
    }

    /// Spins for a moment. After several calls, yields the processor instead.
    #[cold]
    pub(crate) fn relax(&mut self) {
        self.0.snooze();
    }
}
