//! The dice of select: cheap, private to each goroutine or thread, good enough to be fair.

use std::cell::Cell;

use crate::atomic::{AtomicU64, Ordering};
use crate::sched::bubble;

/// Starting points of the sequences, far from each other.
static SEEDS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The place in the sequence (0 until first used) and the next number, made in advance: nobody waits for the
    /// multiplications. It has no destructor, so selects in destructors of thread-locals can use it.
    static STATE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Draws numbers, several from each step of the sequence.
pub(crate) struct Dice {
    entropy: u64,
    draws: u32,
}

impl Dice {
    /// Numbers drawn from one step: their product should stay far below what 64 bits can tell apart.
    const DRAWS: u32 = 4;

    #[inline]
    pub(crate) fn new() -> Dice {
        Dice { entropy: 0, draws: 0 }
    }

    /// A number below `bound`, which is not zero: all equally likely, as far as anybody can tell.
    #[inline]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        if self.draws == 0 {
            self.draws = Dice::DRAWS;
            self.entropy = next();
        }
        self.draws -= 1;
        // The entropy is a fraction: the product's high half is the draw, its low half is what is left.
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
    let (place, number) = step(match bubble::current() {
        None => SEEDS.fetch_add(1, Ordering::Relaxed).wrapping_mul(GOLDEN),
        Some(bubble) => bubble.random(),
    });
    STATE.set(step(place));
    number
}

/// One step of splitmix64: the place walks, the number is its hash.
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
