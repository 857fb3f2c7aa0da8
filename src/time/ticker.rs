//! Ticks at a regular pace.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock;
use crate::chan::{self, Alarm, Receiver};

/// A channel that gets a message at every multiple of a period: Go's `time.Ticker`.
///
/// It holds one message. Whoever is too slow misses ticks, the pace stays as it was. (The receiver of
/// [`chan::tick`](crate::chan::tick) counts the period from when a late tick was received.)
///
/// ```
/// use gort::time::Ticker;
/// use std::time::Duration;
/// let ticker = Ticker::new(Duration::from_millis(1));
/// let (first, second) = (ticker.c().recv().unwrap(), ticker.c().recv().unwrap());
/// assert!(second - first >= Duration::from_millis(1));
/// ticker.stop();
/// ```
pub struct Ticker {
    alarm: Arc<Alarm>,
    receiver: Receiver<Instant>,
}

impl Ticker {
    /// Ticks every `period`, for the first time a period from now.
    ///
    /// # Panics
    /// If the period is zero.
    #[must_use]
    #[track_caller]
    pub fn new(period: Duration) -> Ticker {
        assert!(!period.is_zero(), "a ticker needs a period above zero");
        let (alarm, receiver) = chan::alarm(clock::now().checked_add(period), Some(period));
        Ticker { alarm, receiver }
    }

    /// The channel. Each message is the time of its tick.
    #[must_use]
    pub fn c(&self) -> &Receiver<Instant> {
        &self.receiver
    }

    /// No tick is received after this, not even one that is due. The channel is not closed: who waits waits on, for a
    /// [`reset`](Ticker::reset).
    pub fn stop(&self) {
        self.alarm.stop();
    }

    /// Starts anew with this period.
    ///
    /// # Panics
    /// If the period is zero.
    #[track_caller]
    pub fn reset(&self, period: Duration) {
        assert!(!period.is_zero(), "a ticker needs a period above zero");
        self.alarm.set(clock::now().checked_add(period), Some(period));
    }
}

// Nothing in it can be seen half-changed after a panic.
impl UnwindSafe for Ticker {}
impl RefUnwindSafe for Ticker {}

impl fmt::Debug for Ticker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticker").finish_non_exhaustive()
    }
}
