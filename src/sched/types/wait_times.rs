//! How often and how long goroutines waited, by reason: measured while the program wants it
//! (`runtime::record_waits`).
//!
//! A wait is measured from the park to the `ready` that ends it, so the time in a run queue is not part of
//! it. The parking goroutine reads the clock and marks itself ([`G::measure_wait`]); the thread that readies
//! it sees the mark, and adds the wait to the counters of its P, or to those of the machine if it has none.
//! Both share the branch of the tracer (`event::is_on`), so while nothing is measured this costs nothing at
//! all.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::g::G;
use crate::sched::event::{self, Waker};
use crate::sched::word::status::WaitReason;
use crate::sys::clock::nanotime;

/// Number and total time (ns) of waits, for one reason.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) nanos: u64,
}

/// One sum for each reason.
pub(crate) type Sums = [Sum; WaitReason::COUNT];

/// Told of each wait that was measured, while waits are profiled: the goroutine, which is switched out and
/// belongs to the caller, how long it waited (ns), and what ended its wait. Called inside the runtime, or by
/// a thread that runs no goroutine, perhaps under a lock.
pub(crate) type WaitEnded = fn(&G, u64, Waker<'_>);

/// `Hooks::wait_ended`: set at boot, if there is one. It is here for the loom models, which have no table of
/// hooks.
pub(crate) static WAIT_ENDED: OnceLock<WaitEnded> = OnceLock::new();

/// Any number of threads may add and read at once.
pub(crate) struct WaitTimes([(AtomicU64, AtomicU64); WaitReason::COUNT]);

impl WaitTimes {
    pub(crate) const fn new() -> WaitTimes {
        WaitTimes([const { (AtomicU64::new(0), AtomicU64::new(0)) }; WaitReason::COUNT])
    }

    /// The wait of `g`, which belongs to the caller, has ended because of `waker`: adds it if it was
    /// measured.
    pub(crate) fn add_wait_of(&self, g: &G, waker: Waker<'_>) {
        if !event::measures_waits() || !g.wait_is_measured() {
            return;
        }
        let waited = nanotime().saturating_sub(g.parked_at.load(Ordering::Relaxed));
        if event::records_waits() {
            let (count, nanos) = &self.0[g.wait_reason() as usize];
            count.fetch_add(1, Ordering::Relaxed);
            nanos.fetch_add(waited, Ordering::Relaxed);
        }
        if event::profiles_waits()
            && let Some(wait_ended) = WAIT_ENDED.get()
        {
            wait_ended(g, waited, waker);
        }
    }

    /// Adds everything to `sums`.
    pub(crate) fn add_to(&self, sums: &mut Sums) {
        for (sum, (count, nanos)) in sums.iter_mut().zip(&self.0) {
            sum.count += count.load(Ordering::Relaxed);
            sum.nanos += nanos.load(Ordering::Relaxed);
        }
    }
}
