//! Spinning in a model. Loom's scheduler is not fair: two threads that spin could keep the thread that they
//! wait for from ever running. So after a few rounds (after which loads no longer return old values) a
//! spinner blocks until another thread stamps a slot, which is what spinners in channels wait for.

use loom::sync::{Condvar, Mutex};

const ROUNDS: usize = 2;

loom::lazy_static! {
    /// How many slots were stamped.
    static ref STAMPED: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());
}

/// A slot was stamped.
pub(crate) fn stamped() {
    *STAMPED.0.lock().unwrap() += 1;
    STAMPED.1.notify_all();
}

fn count() -> usize {
    *STAMPED.0.lock().unwrap()
}

/// Stands in for gort's `chan/flavors/relax.rs`.
pub(crate) struct Relax {
    rounds: usize,
    seen: usize,
}

impl Relax {
    pub(crate) fn new() -> Relax {
        Relax { rounds: 0, seen: 0 }
    }

    pub(crate) fn relax(&mut self) {
        self.rounds += 1;
        if self.rounds <= ROUNDS {
            self.seen = count();
            loom::thread::yield_now();
            return;
        }
        let mut now = STAMPED.0.lock().unwrap();
        while *now == self.seen {
            now = STAMPED.1.wait(now).unwrap();
        }
        self.seen = *now;
        self.rounds = 0;
    }
}
