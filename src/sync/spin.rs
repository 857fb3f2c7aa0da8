//! A few looks at a held lock before the waiter parks.
//!
//! Spinning helps only if the holder is running at this moment on another core and holds the lock for less
//! than a park costs. So: never with one P, never when this P has other goroutines to run, a few rounds only, and only short ones.

/// Rounds before a waiter parks.
const ROUNDS: u32 = 4;
/// Pauses in the first round; each further round doubles them.
const FIRST_PAUSES: u32 = 16;

/// One contender's spinning.
pub(super) struct Spin {
    round: u32,
}

impl Spin {
    /// Has not spun yet.
    pub(super) fn new() -> Spin {
        Spin { round: 0 }
    }

    /// Pauses a little. False, at once, if further spinning is unlikely to help.
    #[must_use]
    pub(super) fn once(&mut self) -> bool {
        if self.round >= ROUNDS || !others_run() {
            return false;
        }
        for _ in 0..FIRST_PAUSES << self.round {
            std::hint::spin_loop();
        }
        self.round += 1;
        true
    }

    /// Starts anew, after a wake-up.
    pub(super) fn reset(&mut self) {
        self.round = 0;
    }
}

/// Whether the holder may be running at this moment.
fn others_run() -> bool {
    crate::sched::section::others_run()
}
