//! Which Ps are near: stealing begins with those whose M last ran on a CPU that shares a cache or a memory node with ours.
//!
//! On a machine with one last-level cache all are equally near, and nothing is done. Otherwise each P remembers the CPU of
//! its M, noted whenever that M begins to steal: approximate, since the kernel moves threads, and good enough.

use std::sync::OnceLock;

use super::p::P;
use crate::atomic::Ordering;
use crate::sys::thread;
use crate::sys::topology::Topology;

static TOPOLOGY: OnceLock<Option<Topology>> = OnceLock::new();

/// Once, at start-up.
pub(crate) fn init() {
    TOPOLOGY.get_or_init(|| {
        let topology = Topology::read();
        topology.is_uneven().then_some(topology)
    });
}

/// How far the thief looks in each of its rounds, as [`Distances::of`] counts: near ones first, all in the last two.
const REACH: [u8; 4] = [0, 1, u8::MAX, u8::MAX];

/// What a thief knows about distances.
pub(crate) struct Distances {
    topology: Option<&'static Topology>,
    cpu: usize,
}

impl Distances {
    /// Notes where `own`'s M runs now.
    pub(crate) fn from(own: &P) -> Distances {
        let topology = TOPOLOGY.get().and_then(Option::as_ref);
        let cpu = if topology.is_some() { thread::cpu() } else { 0 };
        if topology.is_some() {
            own.cpu.store(cpu as u32, Ordering::Relaxed);
        }
        Distances { topology, cpu }
    }

    /// Whether `victim` is to be looked at in that round.
    pub(crate) fn within_reach(&self, victim: &P, round: usize) -> bool {
        self.topology.is_none_or(|topology| {
            topology.distance(self.cpu, victim.cpu.load(Ordering::Relaxed) as usize) <= REACH[round]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::REACH;

    #[test]
    fn the_last_two_rounds_reach_everybody() {
        assert!(REACH[2..].iter().all(|&reach| reach == u8::MAX), "runnext is stolen in the last round");
    }
}
