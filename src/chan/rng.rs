//! The dice of select: cheap, private to each goroutine or thread, good enough to be fair.

use std::cell::Cell;

use crate::atomic::{AtomicU64, Ordering};

/// Starting points of the sequences, far from each other.
static SEEDS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// 0 until first used. It has no destructor, so selects in destructors of thread-locals can use it.
    static STATE: Cell<u64> = const { Cell::new(0) };
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number below `bound`, which is not zero: all equally likely, as far as anybody can tell.
#[inline]
pub(crate) fn below(bound: usize) -> usize {
    let state = match STATE.get() {
        0 => SEEDS.fetch_add(1, Ordering::Relaxed).wrapping_mul(GOLDEN),
        state => state,
    };
    // splitmix64: the state walks, the output is its hash.
    let state = state.wrapping_add(GOLDEN);
    STATE.set(state);
    let mut hash = state;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    // The high half of the product maps the hash to the range without a division.
    ((u128::from(hash) * bound as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_are_about_equally_likely() {
        for bound in [1, 2, 3, 7, 32] {
            let mut hits = vec![0; bound];
            let rounds = 10_000 * bound;
            (0..rounds).for_each(|_| hits[below(bound)] += 1);
            assert!(hits.iter().all(|&hits| (9_000..11_000).contains(&hits)), "{hits:?}");
        }
    }

    #[test]
    fn threads_roll_different_dice() {
        let roll = || (0..8).map(|_| below(1000)).collect::<Vec<_>>();
        let other = std::thread::spawn(roll).join().unwrap();
        assert_ne!(roll(), other);
    }
}
