//! Spinning: a waiter looks at a held lock a few more times before it parks.
//!
//! Spinning helps only if the holder is running on another core at this moment and holds the lock for less
//! time than a park costs. So a waiter never spins with one P, never while its own P has other goroutines to
//! run, and otherwise only for a few short rounds.

/// The number of rounds before a waiter parks.
const ROUNDS: u32 = 4;
/// The number of pause instructions in the first round; each further round doubles it. Shorter pauses take
/// the lock's cache line away from the holder too often; longer ones notice the release too late (see the
/// README).
const FIRST_PAUSES: u32 = 16;

/// The spinning of one contender.
pub(in crate::sync) struct Spin {
    round: u32,
}

impl Spin {
    /// A contender that has not spun yet.
    pub(in crate::sync) fn new() -> Spin {
        Spin { round: 0 }
    }

    /// Spins for one round. Returns false at once if further spinning is unlikely to help.
    #[must_use]
    pub(in crate::sync) fn once(&mut self) -> bool {
        if self.round >= ROUNDS || !others_run() {
            return false;
        }
        for _ in 0..FIRST_PAUSES << self.round {
            std::hint::spin_loop();
        }
        self.round += 1;
        true
    }

    /// Allows all rounds again, after a wake-up.
    pub(in crate::sync) fn reset(&mut self) {
        self.round = 0;
    }
}

/// Whether the holder may be running at this moment.
fn others_run() -> bool {
    crate::sched::run::runtime_section::others_run()
}
