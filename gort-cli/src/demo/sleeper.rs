//! A goroutine that repeatedly sleeps for a millisecond and measures how late it wakes: how other load
//! affects it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gort::context::Context;

use super::spread::{Durations, Spread};

const NAP: Duration = Duration::from_millis(1);

/// A sleeper that wakes this many times within [`PATIENCE`], while others compute or block, is considered to
/// keep waking.
pub(crate) const OFTEN: u64 = 3;
/// How long the sleeper tries to wake [`OFTEN`] times.
const PATIENCE: Duration = Duration::from_secs(5);

/// The worst lateness so far, in nanoseconds, for the live view.
#[derive(Clone, Default)]
pub(crate) struct Worst(Arc<AtomicU64>);

impl Worst {
    pub(crate) fn micros(&self) -> f64 {
        self.0.load(Relaxed) as f64 / 1000.0
    }
}

/// Naps until `time` is over or the context ends, and returns how late each nap ended. Continues for up to
/// [`PATIENCE`] if it has woken less than [`OFTEN`] times: other processes may occupy the cores.
pub(crate) fn nap_for(ctx: &Context, time: Duration, worst: &Worst) -> Option<Spread> {
    let mut late = Durations::default();
    let start = Instant::now();
    let goes_on = |naps| start.elapsed() < if naps < OFTEN { time.max(PATIENCE) } else { time };
    let mut naps = 0;
    while goes_on(naps) && ctx.err().is_none() {
        let begin = Instant::now();
        gort::sleep(NAP);
        let lateness = begin.elapsed().saturating_sub(NAP);
        worst.0.fetch_max(lateness.as_nanos() as u64, Relaxed);
        late.add(lateness);
        naps += 1;
    }
    late.spread()
}
