//! A histogram of durations: keeps the count, quantiles and maximum of many durations in little memory.

use std::time::Duration;

use serde::Serialize;

/// The number of buckets for each power of two. With 16, a quantile is at most 1/16 too low.
const SUBS: usize = 16;
const SUB_BITS: u32 = 4;
const BUCKETS: usize = (64 - SUB_BITS as usize) * SUBS + SUBS;

/// Counts durations by their length, in nanoseconds.
#[derive(Clone)]
pub(crate) struct Durations {
    counts: Vec<u64>,
    max: Duration,
}

impl Default for Durations {
    fn default() -> Durations {
        Durations { counts: vec![0; BUCKETS], max: Duration::ZERO }
    }
}

impl Durations {
    pub(crate) fn add(&mut self, duration: Duration) {
        self.counts[bucket(duration.as_nanos() as u64)] += 1;
        self.max = self.max.max(duration);
    }

    /// The figures so far; `None` if nothing was counted.
    pub(crate) fn spread(&self) -> Option<Spread> {
        let count: u64 = self.counts.iter().sum();
        let quantile = |q: f64| {
            let rank = ((count as f64 * q).ceil() as u64).max(1);
            let mut below = 0;
            let found = self.counts.iter().position(|n| {
                below += n;
                below >= rank
            });
            micros(Duration::from_nanos(found.map_or(0, lower_bound)))
        };
        (count > 0).then(|| Spread {
            count,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            max_us: micros(self.max),
        })
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1000.0
}

fn bucket(nanos: u64) -> usize {
    if nanos < SUBS as u64 {
        return nanos as usize;
    }
    let power = nanos.ilog2();
    (power - SUB_BITS + 1) as usize * SUBS + (nanos >> (power - SUB_BITS)) as usize % SUBS
}

fn lower_bound(bucket: usize) -> u64 {
    if bucket < SUBS {
        return bucket as u64;
    }
    ((SUBS + bucket % SUBS) as u64) << (bucket / SUBS - 1)
}

/// The figures that describe many durations.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) count: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another() {
        for index in 0..BUCKETS - 1 {
            assert_eq!(bucket(lower_bound(index)), index);
            assert_eq!(bucket(lower_bound(index + 1) - 1), index);
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_are_close_and_the_maximum_exact() {
        let mut durations = Durations::default();
        assert!(durations.spread().is_none());
        (1..=1000).for_each(|n| durations.add(Duration::from_micros(n)));
        let spread = durations.spread().unwrap();
        assert_eq!((spread.count, spread.max_us), (1000, 1000.0));
        assert!((470.0..=500.0).contains(&spread.p50_us), "{spread:?}");
        assert!((930.0..=990.0).contains(&spread.p99_us), "{spread:?}");
    }
}
