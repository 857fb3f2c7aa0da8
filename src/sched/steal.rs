//! Taking half of another P's run queue.

use std::ptr;

use super::g::G;
use super::global::{self, PROCS};
use super::m::M;
use super::near::Distances;
use super::p::{self, P};
use super::runq::BATCH;
use super::wake;
use crate::atomic::Ordering;
use crate::sys::clock::nanotime;
use crate::timer::{self, NEVER};

const ROUNDS: usize = 4;

/// How long a goroutine must have been in `runnext` before a thief takes it: its P is likely to run it at once,
/// and moving it would cost both more than it gains.
const NEXT_GRACE_NANOS: u64 = 3_000;

/// Looks at all other Ps, up to four times, in random order. On success the rest of what was stolen is in the
/// caller's own queue.
pub(crate) fn steal(m: &'static M, own: &'static P) -> Option<&'static G> {
    let procs = PROCS.load(Ordering::Relaxed) as usize;
    let distances = Distances::from(own);
    for round in 0..ROUNDS {
        let last = round == ROUNDS - 1;
        for id in random_order(m, procs) {
            if id == own.id as usize || global::is_idle(id) {
                continue;
            }
            if let Some(victim) = p::get(id)
                && distances.within_reach(victim, round)
                && let Some(g) = steal_from(own, victim, last)
            {
                return Some(g);
            }
        }
    }
    None
}

/// Fires the due timers of all Ps.
pub(crate) fn run_timers_of_others(own: &'static P) {
    if timer::earliest() == NEVER {
        return;
    }
    let now = nanotime();
    for other in p::all() {
        timer::check_other(own, other, now);
    }
}

fn steal_from(own: &'static P, victim: &'static P, take_next: bool) -> Option<&'static G> {
    let take_next = take_next && next_stays(victim);
    let mut batch = [ptr::null_mut(); BATCH];
    let count = victim.runq.steal(&mut batch, take_next);
    let (last, rest) = batch[..count].split_last()?;
    // SAFETY: the caller owns its P.
    let owner = unsafe { own.runq.owner() };
    for g in rest {
        // The ring of a thief is empty, unless its P was retired while timers or I/O filled it.
        if !owner.try_put(*g) {
            // SAFETY: the queue holds pointers to Gs only, and this one is ours now.
            wake::put_last(own, unsafe { &**g });
        }
    }
    own.stats.steals.add(1);
    own.stats.stolen.add(count as u64);
    // SAFETY: the queue holds pointers to Gs only, and this one is ours now.
    Some(unsafe { &**last })
}

/// Looks only twice: each look takes a cache line away from the victim. The tick tells whether the victim went on: a
/// goroutine that it ran may be back in `runnext`.
fn next_stays(victim: &P) -> bool {
    let seen = victim.runq.peek_next();
    if seen.is_null() {
        return false;
    }
    let tick = victim.tick.load(Ordering::Relaxed);
    let start = nanotime();
    while nanotime() - start < NEXT_GRACE_NANOS {
        std::hint::spin_loop();
    }
    victim.tick.load(Ordering::Relaxed) == tick && victim.runq.peek_next() == seen
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
