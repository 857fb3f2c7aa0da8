//! A histogram of durations. Its buckets grow with the duration: four for each power of two, so a bucket's
//! ends are at most 25% apart. The last bucket counts everything longer than about 18 minutes.

use std::sync::atomic::{AtomicU64, Ordering};

const SUB_BITS: u32 = 2;
const SUBS: usize = 1 << SUB_BITS;
const LAST_POWER: u32 = 40;

/// How many buckets there are.
pub(crate) const BUCKETS: usize = LAST_POWER as usize * SUBS;

/// Any number of threads may add and read at once.
pub(crate) struct Histogram {
    counts: [AtomicU64; BUCKETS],
    /// The sum of all durations (ns).
    sum: AtomicU64,
}

impl Histogram {
    pub(crate) const fn new() -> Histogram {
        Histogram { counts: [const { AtomicU64::new(0) }; BUCKETS], sum: AtomicU64::new(0) }
    }

    pub(crate) fn add(&self, nanos: u64) {
        self.counts[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Adds the counts to `counts`. Returns the sum of the durations (ns).
    pub(crate) fn add_to(&self, counts: &mut [u64; BUCKETS]) -> u64 {
        let sum = self.sum.load(Ordering::Relaxed);
        for (all, own) in counts.iter_mut().zip(&self.counts) {
            *all += own.load(Ordering::Relaxed);
        }
        sum
    }
}

/// The bucket of a duration.
fn bucket(nanos: u64) -> usize {
    if nanos < SUBS as u64 {
        return nanos as usize;
    }
    let power = nanos.ilog2();
    let sub = (nanos >> (power - SUB_BITS)) as usize % SUBS;
    ((power - SUB_BITS + 1) as usize * SUBS + sub).min(BUCKETS - 1)
}

/// The shortest duration of a bucket.
pub(crate) fn lower_bound(bucket: usize) -> u64 {
    if bucket < SUBS {
        return bucket as u64;
    }
    ((SUBS + bucket % SUBS) as u64) << (bucket / SUBS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_one_another() {
        for index in 0..BUCKETS {
            assert_eq!(bucket(lower_bound(index)), index);
            assert!(index == 0 || bucket(lower_bound(index) - 1) == index - 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn a_duration_is_in_its_bucket(nanos in 0..lower_bound(BUCKETS - 1)) {
            let index = bucket(nanos);
            prop_assert!(lower_bound(index) <= nanos && nanos < lower_bound(index + 1));
            prop_assert!(lower_bound(index + 1) - lower_bound(index) <= (lower_bound(index) / 4).max(1));
        }
    }
}
