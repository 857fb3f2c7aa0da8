//! The ticks at which CPU time is accounted: see `account/cpu_time.rs`.
//!
//! Ticks must not keep step with the program, neither with a loop of one millisecond nor with what woke
//! sysmon. So the pauses between them vary at random, and the first tick after a sleep comes at a random time
//! within a pause.

use super::MICRO;
use crate::sched::machine::SCHED;
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sys::thread;

/// A tick comes at a look that is at least this long after the last tick (ns): the mean of a uniform
/// distribution from half to one and a half of it. The clock of one thread costs about 0.4 µs.
const EVERY: u64 = 1000 * MICRO;

pub(super) struct CpuTicks {
    /// When the next tick is due (ns).
    next: u64,
    random: u64,
}

impl CpuTicks {
    pub(super) fn new() -> CpuTicks {
        CpuTicks { next: 0, random: 0x9E37_79B9_7F4A_7C15 }
    }

    /// Measures the Ms that run goroutines, if a tick is due. `slept`: sysmon was asleep before.
    pub(super) fn tick(&mut self, now: u64, slept: bool) {
        if slept {
            self.next = now + self.random_below(EVERY);
        }
        if now < self.next {
            return;
        }
        self.next = now + EVERY / 2 + self.random_below(EVERY);
        for p in SCHED.all_ps() {
            if let Some(m) = p.m().filter(|m| !SCHED.is_idle(p.id as usize) && runs(m, p))
                && let Some(clock) = thread::cpu_nanos(m.tid())
            {
                m.cpu_time.measure(clock, now);
            }
        }
    }

    /// xorshift: good enough not to keep step.
    fn random_below(&mut self, n: u64) -> u64 {
        let mut x = self.random;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random = x;
        ((x >> 32) * n) >> 32
    }
}

/// Whether the M, which has the P or had it last, runs a goroutine or the scheduler. If it sleeps, there is
/// nobody to charge.
fn runs(m: &'static M, p: &'static P) -> bool {
    m.current().is_some() || m.p().is_some_and(|own| std::ptr::eq(own, p))
}
