//! The order in which a thief visits the other Ps: random, near ones first.
//!
//! On a machine with one last-level cache all are equally near. Otherwise each P stores the CPU of its M
//! whenever that M begins to steal. That is approximate, because the kernel moves threads, and good enough.

use crate::base::atomic::Ordering;
use crate::sched::platform::Platform;
use crate::sched::schedt::Sched;
use crate::sched::types::m::M;
use crate::sched::types::p::P;

/// The largest distance of a victim in each round, in units of
/// [`Topology::distance`](crate::sys::topology::Topology::distance): near Ps first, all Ps in the last two
/// rounds.
pub(crate) const REACH: [u8; 4] = [0, 1, u8::MAX, u8::MAX];

/// Whether a thief on `cpu` looks at `victim` in round `round`.
pub(super) fn within_reach<X: Platform>(
    sched: &Sched<X>,
    uneven: bool,
    cpu: usize,
    victim: &P,
    round: usize,
) -> bool {
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
