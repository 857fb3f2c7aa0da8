//! Stealing: taking half of another P's run queue.
//!
//! A thief visits the other Ps in random order, near ones first. On a machine with one last-level cache all
//! are equally near. Otherwise each P stores the CPU of its M whenever that M begins to steal. That is
//! approximate, because the kernel moves threads, and good enough.

use std::ptr;

use crate::base::atomic::{Ordering, STEAL_ROUNDS};
use crate::sched::platform::Platform;
use crate::sched::queue::runq::BATCH;
use crate::sched::schedt::Sched;
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sched::types::p::P;

/// A thief waits this long (ns) before it takes a goroutine from `runnext`: its P is likely to run it at
/// once, and moving it would cost both more than it gains.
const NEXT_GRACE: u64 = 3_000;

/// The largest distance of a victim in each round, in units of
/// [`Topology::distance`](crate::sys::topology::Topology::distance): near Ps first, all Ps in the last two
/// rounds.
pub(crate) const REACH: [u8; 4] = [0, 1, u8::MAX, u8::MAX];

impl<X: Platform> Sched<X> {
    /// Looks at all other Ps, up to four times, in random order. On success returns one goroutine, and the
    /// rest of what was stolen is in the caller's own queue.
    pub(crate) fn steal(&self, m: &'static M, own: &'static P) -> Option<&'static G> {
        let procs = self.procs();
        let uneven = self.platform.is_uneven();
        let cpu = if uneven { self.platform.cpu() } else { 0 };
        if uneven {
            own.cpu.store(cpu as u32, Ordering::Relaxed);
        }
        for round in 0..STEAL_ROUNDS {
            let last = round == STEAL_ROUNDS - 1;
            for id in random_order(m, procs) {
                if id == own.id as usize || self.is_idle(id) {
                    continue;
                }
                if let Some(victim) = self.p(id)
                    && within_reach(self, uneven, cpu, victim, round)
                    && let Some(g) = self.steal_from(own, victim, last)
                {
                    return Some(g);
                }
            }
        }
        None
    }

    fn steal_from(&self, own: &'static P, victim: &'static P, take_next: bool) -> Option<&'static G> {
        let take_next = take_next && self.next_stays(victim);
        let mut batch = [ptr::null_mut(); BATCH];
        let count = victim.runq.steal(&mut batch, take_next);
        let (last, rest) = batch[..count].split_last()?;
        // SAFETY: the caller owns its P.
        let owner = unsafe { own.runq.owner() };
        for g in rest {
            // The ring of a thief is empty, unless its P was retired while timers or I/O filled it.
            if !owner.try_put(*g) {
                // SAFETY: the queue holds pointers to Gs only, and this one is ours now.
                self.put_last(own, unsafe { &**g });
            }
        }
        own.stats.steals.add(1);
        own.stats.stolen.add(count as u64);
        own.stats.last_victim.store(victim.id + 1, Ordering::Relaxed);
        // SAFETY: the queue holds pointers to Gs only, and this one is ours now.
        Some(unsafe { &**last })
    }

    /// Whether the goroutine in the victim's `runnext` stays there for [`NEXT_GRACE`]. It looks only twice,
    /// because each look takes a cache line away from the victim. The tick shows whether the victim switched
    /// meanwhile: then the same goroutine may have run and be back in `runnext`.
    fn next_stays(&self, victim: &P) -> bool {
        let seen = victim.runq.peek_next();
        if seen.is_null() {
            return false;
        }
        let tick = victim.tick.load(Ordering::Relaxed);
        self.platform.busy_wait(NEXT_GRACE);
        victim.tick.load(Ordering::Relaxed) == tick && victim.runq.peek_next() == seen
    }
}

/// Whether a thief on `cpu` looks at `victim` in round `round`.
fn within_reach<X: Platform>(sched: &Sched<X>, uneven: bool, cpu: usize, victim: &P, round: usize) -> bool {
    !uneven || sched.platform.is_near(cpu, victim.cpu.load(Ordering::Relaxed) as usize, round)
}

/// Every number below `n` once, from a random start in steps of a random size coprime to `n`.
pub(crate) fn random_order(m: &M, n: usize) -> impl Iterator<Item = usize> {
    let start = m.random_below(n);
    let mut step = 1 + m.random_below(n);
    while gcd(step, n) != 1 {
        step += 1;
    }
    (0..n).map(move |i| (start + i * step) % n)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::{REACH, random_order};
    use crate::sched::types::m::M;

    #[test]
    fn the_last_two_rounds_reach_all_ps() {
        assert!(REACH[2..].iter().all(|&reach| reach == u8::MAX), "runnext is stolen in the last round");
    }

    #[test]
    fn a_random_order_visits_every_p_once() {
        let m = M::new(3);
        for n in 1..=130 {
            let mut seen: Vec<usize> = random_order(&m, n).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..n), "{n} Ps");
        }
    }
}
