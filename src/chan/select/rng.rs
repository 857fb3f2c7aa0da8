//! The random numbers of select: cheap, private to each goroutine or thread, and good enough to be fair.

use std::cell::Cell;

use crate::base::atomic::{AtomicU64, Ordering};
use crate::sched::machine::hooks;
use crate::sched::types::current::current_bubble;

/// The next starting point, in steps of the sequence. Each goroutine or thread takes its own, so that their
/// sequences differ.
static SEEDS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The place in the sequence (0 until first used) and the next number. That number is computed in
    /// advance, so that a draw does not wait for the multiplications. The cell has no destructor, so selects
    /// in destructors of thread-locals can use it.
    static STATE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The increment of splitmix64: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Draws random numbers, several from each step of the sequence.
pub(crate) struct Dice {
    entropy: u64,
    draws: u32,
}

impl Dice {
    /// How many numbers are drawn from one step. The product of their bounds should stay far below 2^64, the
    /// number of values that a step can have.
    const DRAWS: u32 = 4;

    #[inline]
    pub(crate) fn new() -> Dice {
        Dice { entropy: 0, draws: 0 }
    }

    /// A number below `bound`, which must not be zero. All numbers are practically equally likely.
    #[inline]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        if self.draws == 0 {
            self.draws = Dice::DRAWS;
            self.entropy = next();
        }
        self.draws -= 1;
        // The entropy is a fraction of 2^64. The product's high half is the draw, its low half is the entropy
        // that is left.
        let product = u128::from(self.entropy) * bound as u128;
        self.entropy = product as u64;
        (product >> 64) as usize
    }
}

/// The next number of this goroutine or thread.
#[inline]
fn next() -> u64 {
    let (place, number) = STATE.get();
    if place == 0 {
        return first();
    }
    STATE.set(step(place));
    number
}

#[cold]
fn first() -> u64 {
    let (place, number) = step(match current_bubble() {
        0 => SEEDS.fetch_add(1, Ordering::Relaxed).wrapping_mul(GOLDEN),
        number => (hooks().bubble.random)(number),
    });
    STATE.set(step(place));
    number
}

/// One step of splitmix64: returns the next place, and the number there, which is the hash of the place.
#[inline]
fn step(place: u64) -> (u64, u64) {
    let place = place.wrapping_add(GOLDEN);
    let hash = (place ^ (place >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (place, hash ^ (hash >> 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_are_about_equally_likely() {
        let mut dice = Dice::new();
        for bound in [1, 2, 3, 7, 32] {
            let mut hits = vec![0; bound];
            let rounds = 10_000 * bound;
            (0..rounds).for_each(|_| hits[dice.below(bound)] += 1);
            assert!(hits.iter().all(|&hits| (9_000..11_000).contains(&hits)), "{hits:?}");
        }
    }

    #[test]
    fn draws_from_one_step_do_not_depend_on_each_other() {
        let mut hits = [[0; 4]; 4];
        for _ in 0..160_000 {
            let mut dice = Dice::new();
            let first = dice.below(4);
            hits[first][dice.below(4)] += 1;
        }
        assert!(hits.as_flattened().iter().all(|&hits| (9_000..11_000).contains(&hits)), "{hits:?}");
    }

    #[test]
    fn threads_roll_different_dice() {
        let roll = || (0..8).map(|_| next()).collect::<Vec<_>>();
        let other = std::thread::spawn(roll).join().unwrap();
        assert_ne!(roll(), other);
    }
}
