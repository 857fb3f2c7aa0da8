//! Stealing: taking half of another P's run queue.

use std::ptr;

use super::steal_order::{random_order, within_reach};
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
