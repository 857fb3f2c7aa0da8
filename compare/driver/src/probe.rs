//! A fixed piece of work before and after each run, which tells whether the machine was slower than usual.
//!
//! On shared machines single runs are of two kinds: in one of them everything, whatever the peer, takes a
//! quarter longer, although no other process of this machine runs. The probe takes longer then, too.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A run is disturbed if the probe took more than this much longer than the fastest probe so far.
const TOLERATED: f64 = 0.12;

/// The fastest probe so far (ns).
static FASTEST: AtomicU64 = AtomicU64::new(u64::MAX);

/// How many of its parts a probe runs; the fastest counts, so that an interrupt does not.
const PARTS: usize = 5;

/// The time of one probe (ns): some milliseconds of arithmetic and of walks through a cache.
pub fn run() -> u64 {
    let fastest = (0..PARTS).map(|_| part()).min().unwrap_or(u64::MAX);
    FASTEST.fetch_min(fastest, Ordering::Relaxed);
    fastest
}

fn part() -> u64 {
    let start = Instant::now();
    let mut table = vec![0u32; 16 << 10];
    let mut at = 1u64;
    for _ in 0..200_000 {
        at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let place = (at >> 40) as usize % table.len();
        table[place] = table[place].wrapping_add(at as u32);
    }
    black_box(&table);
    start.elapsed().as_nanos() as u64
}

/// By how much the slower of two probes exceeds the fastest of all: 0.25 means a quarter.
pub fn slowness(before: u64, after: u64) -> f64 {
    before.max(after) as f64 / FASTEST.load(Ordering::Relaxed) as f64 - 1.0
}

/// Whether a run between such probes is one of the slow kind.
pub fn is_slow(slowness: f64) -> bool {
    slowness > TOLERATED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_two_probes_counts() {
        let probe = run();
        assert!(probe > 0);
        let fastest = FASTEST.load(Ordering::Relaxed);
        assert!(slowness(fastest, fastest) <= 0.0);
        assert!(is_slow(slowness(fastest, 2 * fastest)) && is_slow(slowness(2 * fastest, fastest)));
    }
}
