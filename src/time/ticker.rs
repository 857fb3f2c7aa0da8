//! [`Ticker`]: a channel that receives the time at regular intervals.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::chan::{self, Alarm, Receiver};
use crate::sched::park::clock;

/// A channel that gets a message at every multiple of a period: Go's `time.Ticker`.
///
/// The channel holds one message. A receiver that is too slow misses ticks, but the pace stays the same. (The
/// receiver of [`chan::tick`](crate::chan::tick) counts the next period from the moment at which a late tick
/// was received.)
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
    /// A ticker that ticks every `period`, for the first time one period from now.
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

    /// Stops the ticker. Nobody receives a tick after this, not even one that is due. The channel stays open:
    /// a waiting receiver keeps waiting until a [`reset`](Ticker::reset).
    pub fn stop(&self) {
        self.alarm.stop();
    }

    /// Restarts the ticker with this period.
    ///
    /// # Panics
    /// If the period is zero.
    #[track_caller]
    pub fn reset(&self, period: Duration) {
        assert!(!period.is_zero(), "a ticker needs a period above zero");
        self.alarm.set(clock::now().checked_add(period), Some(period));
    }
}

// A panic never leaves it half-changed.
impl UnwindSafe for Ticker {}
impl RefUnwindSafe for Ticker {}

impl fmt::Debug for Ticker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticker").finish_non_exhaustive()
    }
}
