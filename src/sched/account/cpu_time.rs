//! The CPU time of goroutines: each M's clock, and who is charged.
//!
//! To read a clock at each switch would cost more than half a switch. So the time is accounted by *ticks*,
//! and not by switches:
//!
//! ```text
//! the CPU time of an M's thread    0 ────────── 3.1 ms ─────────── 4.0 ms ───── 5.3 ms
//! goroutines on the M              A A A B A B B|B A C C C C C C C C|C C A B A B A|A
//! ticks                                         └ 3.1 ms for B      └ 0.9 for C   └ 1.3 for A
//! ```
//! sysmon ticks about once a millisecond (`monitor/sysmon/cpu_ticks.rs`): it reads the clock of the thread,
//! and adds what has passed since the last reading to [`ThreadTime::pending`]. The goroutine that runs at
//! that moment is charged with it when it stops (`run/schedule.rs`): a load and a branch in each switch. If
//! the M is between goroutines, on g0, the scheduler is charged.
//!
//! **Nothing is lost or counted twice.** The readings of a thread's clock divide its CPU time into intervals,
//! and each interval is charged once ([`ThreadTime::measure`]). It is the kernel's CPU time, so neither
//! waiting in a blocking call nor time in which other processes had the core is part of it, and a system call
//! is.
//!
//! **It is fair.** The moment of a tick does not depend on what the goroutines do. So the probability that a
//! tick hits a goroutine is the goroutine's share of the time, and the interval that it is charged with does
//! not depend on which one is hit. The expected charge is what the goroutine has used, however its time is
//! divided into slices. After `n` ticks, the standard deviation of a share `s` is `sqrt(s * (1 - s) / n)`; a
//! goroutine that runs for longer than a tick is charged exactly but for a tick at both ends. So an M
//! without a goroutine and without a P is not measured at a tick, because there is no goroutine to charge:
//! its interval goes on until the next one. Slices that a goroutine spends without a P, in marked or unmarked
//! calls, have no ticks: the goroutine reads the clock itself when it comes back and has lost its P.
//!
//! sysmon may be late: on one busy CPU it may get its turn only when the thread of an M sleeps, which then
//! runs nothing. So an M looks itself, about once in 61 direct switches (`find_runnable.rs`) and once in
//! [`LOOK_EVERY`] switches to g0, and measures if it has used [`LATE`] since the last tick. The goroutine
//! that stops there is charged. Of the few slices between two looks one is chosen by number and not by
//! length: this is the one unfair case.
//!
//! While an M is the only one at work and its goroutines run briefly, sysmon sleeps
//! (`idle/wake_sysmon.rs`). Then the M ticks itself, when a goroutine leaves it to g0: each time that its
//! goroutines have run for about [`EVERY`] together, which is as fair as sysmon's ticks where one goroutine
//! runs at a time.
//!
//! What a thread has used since the last tick is nobody's yet, and reports say so: if a report were a tick,
//! it would always hit the goroutine that makes it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::label_times;
use super::labels::{Labels, Word};
use crate::base::owner_cell::OwnerU64;

/// If the thread of an M has used this much CPU time (ns) and was not measured, it measures itself. Even if
/// sysmon looks only once in 10 ms, that is rare.
const LATE: u64 = 20_000_000;

/// The mean time (ns) that goroutines run between two ticks of an M's own; from half to one and a half of it.
const EVERY: u64 = 1_000_000;

/// At one of this many stops of goroutines that leave the M to g0, the M looks whether it is late.
const LOOK_EVERY: u8 = 16;

/// What a goroutine has used, and for what.
#[derive(Debug)]
pub(crate) struct GoroutineTime {
    pub(crate) labels: Word,
    /// CPU time (ns). Only the M that runs the goroutine adds.
    nanos: AtomicU64,
}

impl GoroutineTime {
    #[inline]
    pub(crate) fn new(labels: Labels) -> GoroutineTime {
        GoroutineTime { labels: Word::new(labels), nanos: AtomicU64::new(0) }
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }
}

/// The CPU time of an M's thread (ns). The first word lies beside what else a switch needs of the M.
#[repr(C)]
pub(crate) struct ThreadTime {
    /// What was measured and not charged yet.
    pending: AtomicU64,
    /// The clock at the last measurement.
    measured: AtomicU64,
    /// When that was, or when the M last looked whether it is late, by the monotonic clock.
    looked_at: AtomicU64,
    /// What goroutines were charged with, and what the scheduler was. Only the M's thread adds; other threads
    /// read. They go on when another thread uses the M.
    goroutines: OwnerU64,
    scheduler: OwnerU64,
    /// Counts goroutines that stopped and left the M to g0.
    stops: Cell<u8>,
    /// How long goroutines run (ns) until the M's own next tick.
    until_own_tick: Cell<u64>,
}

impl ThreadTime {
    pub(crate) const fn new() -> ThreadTime {
        ThreadTime {
            pending: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
            goroutines: OwnerU64::new(0),
            scheduler: OwnerU64::new(0),
            stops: Cell::new(0),
            until_own_tick: Cell::new(0),
        }
    }

    /// Called at a tick, by any thread: the clock of the M's thread shows `clock`, and the time is `now`.
    /// Several threads may measure at once: the values of `measured` only grow, and each step is added by the
    /// thread that made it.
    pub(crate) fn measure(&self, clock: u64, now: u64) {
        let before = self.measured.fetch_max(clock, Ordering::Relaxed);
        self.looked_at.store(now, Ordering::Relaxed);
        if clock > before {
            self.pending.fetch_add(clock - before, Ordering::Relaxed);
        }
    }

    /// Called on the M's thread: measures, if that is late. `clock` reads the thread's clock, which takes
    /// longer than to read `now`.
    pub(crate) fn measure_if_late(&self, now: u64, clock: impl FnOnce() -> Option<u64>) {
        if now.saturating_sub(self.looked_at.load(Ordering::Relaxed)) < LATE {
            return;
        }
        self.looked_at.store(now, Ordering::Relaxed);
        if let Some(clock) = clock()
            && clock.saturating_sub(self.measured.load(Ordering::Relaxed)) >= LATE
        {
            self.measure(clock, now);
        }
    }

    /// Called on the M's thread when a goroutine has left it to g0. True: it is time to look
    /// whether the M is late.
    #[inline]
    pub(crate) fn counts_stop(&self) -> bool {
        self.stops.set(self.stops.get().wrapping_add(1));
        self.stops.get().is_multiple_of(LOOK_EVERY)
    }

    /// Called on the M's thread at `now`, when a goroutine has stopped, while sysmon does not tick:
    /// goroutines have run for `nanos` since the last call. True: it is time for a tick.
    pub(crate) fn is_own_tick(&self, nanos: u64, now: u64) -> bool {
        let left = self.until_own_tick.get();
        if nanos < left {
            self.until_own_tick.set(left - nanos);
            return false;
        }
        // Not a fixed time: it could keep step with the goroutines.
        self.until_own_tick
            .set(EVERY / 2 + (now.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) * EVERY / (1 << 32));
        true
    }

    /// Whether a tick hit what runs now.
    #[inline(always)]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) != 0
    }

    /// Called on the M's thread, inside the runtime: charges the goroutine that is about to stop. `None`: it
    /// is ending, which is the scheduler's work.
    pub(crate) fn charge(&self, goroutine: Option<&GoroutineTime>) {
        let Some(goroutine) = goroutine else { return self.charge_scheduler() };
        let nanos = self.pending.swap(0, Ordering::Relaxed);
        goroutine.nanos.store(goroutine.nanos() + nanos, Ordering::Relaxed);
        label_times::charge(&goroutine.labels, nanos);
        self.goroutines.set(self.goroutines.get() + nanos);
    }

    /// Called on the M's thread: the scheduler ran at the tick.
    pub(crate) fn charge_scheduler(&self) {
        let nanos = self.pending.swap(0, Ordering::Relaxed);
        self.scheduler.set(self.scheduler.get() + nanos);
    }

    /// The M gets a thread, whose clock begins at 0.
    pub(crate) fn thread_begins(&self) {
        self.measured.store(0, Ordering::Relaxed);
    }

    /// The M's thread, whose clock shows `clock`, ends.
    pub(crate) fn thread_ends(&self, clock: u64, now: u64) {
        self.measure(clock, now);
        self.charge_scheduler();
    }

    /// What the goroutine that runs now, or the scheduler, will be charged with.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// What the thread, whose clock shows `clock`, has used since the last tick.
    pub(crate) fn unmeasured(&self, clock: u64) -> u64 {
        clock.saturating_sub(self.measured.load(Ordering::Relaxed))
    }

    /// What goroutines and the scheduler were charged with.
    pub(crate) fn charged(&self) -> (u64, u64) {
        (self.goroutines.get(), self.scheduler.get())
    }
}

#[cfg(test)]
mod tests {
    use super::{GoroutineTime, Labels, ThreadTime};

    #[test]
    fn each_nanosecond_is_charged_once() {
        let (thread, a, b) =
            (ThreadTime::new(), GoroutineTime::new(Labels::NONE), GoroutineTime::new(Labels::NONE));
        thread.measure(10, 0);
        thread.charge(Some(&a));
        thread.measure(25, 0);
        thread.measure(20, 0); // a reading that comes late
        thread.measure(30, 0);
        assert!(thread.is_pending());
        thread.charge(Some(&b));
        assert!(!thread.is_pending());
        thread.measure(37, 0);
        assert_eq!((thread.pending(), thread.unmeasured(40)), (7, 3));
        thread.charge(None);
        thread.thread_ends(45, 0);
        thread.thread_begins();
        thread.measure(5, 0);
        thread.charge(Some(&a));
        assert_eq!((a.nanos(), b.nanos(), thread.charged()), (15, 20, (35, 15)));
    }
}
