//! The channel of `tick`: it delivers a message every period. There is no sender, no timer and no thread: the
//! receivers wait with a deadline. A tick that was taken late is not made up for: the next one comes a period
//! after it was taken.

use std::time::{Duration, Instant};

use crate::base::atomic::{AtomicU64, Ordering};
use crate::chan::errors::{RecvTimeoutError, TryRecvError};
use crate::chan::waitq::{ELSEWHERE, sleep_until};
use crate::sched::park::clock;
use crate::sched::park::limit;
use crate::sched::word::status::WaitReason;

/// The value of `next` if the next tick lies beyond what 64 bits of nanoseconds can count (584 years): it
/// will not come.
const NEVER: u64 = u64::MAX;

/// The channel of `tick`.
pub(crate) struct Tick {
    start: Instant,
    /// The next tick, in nanoseconds since the start.
    next: AtomicU64,
    /// In nanoseconds.
    period: u64,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

impl Tick {
    /// The first tick comes a period after `start`.
    pub(crate) fn new(start: Instant, period: Duration) -> Tick {
        let period = nanos(period);
        Tick { start, next: AtomicU64::new(period), period }
    }

    fn now(&self) -> u64 {
        nanos(clock::now().saturating_duration_since(self.start))
    }

    fn at(&self, tick: u64) -> Option<Instant> {
        if tick == NEVER { None } else { self.start.checked_add(Duration::from_nanos(tick)) }
    }

    /// Takes the tick `due`, and sets the next one to a period after `from`. Returns false if another
    /// receiver took the tick first.
    fn take(&self, due: u64, from: u64) -> bool {
        let next = from.saturating_add(self.period);
        // Relaxed: a tick publishes no other memory.
        self.next.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn try_recv(&self) -> Result<Instant, TryRecvError> {
        loop {
            let due = self.next.load(Ordering::Relaxed);
            let now = self.now();
            let Some(instant) = self.at(due).filter(|_| due <= now) else { return Err(TryRecvError::Empty) };
            if self.take(due, now) {
                return Ok(instant);
            }
        }
    }

    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Result<Instant, RecvTimeoutError> {
        let _unlimited = deadline.is_none().then(limit::suspend);
        let object = ELSEWHERE;
        loop {
            let due = self.next.load(Ordering::Relaxed);
            let Some(instant) = self.at(due) else {
                sleep_until(WaitReason::ChanReceive, object, deadline);
                return Err(RecvTimeoutError::Timeout);
            };
            if let Some(deadline) = deadline
                && deadline < instant
            {
                if clock::now() < deadline {
                    sleep_until(WaitReason::ChanReceive, object, Some(deadline));
                }
                return Err(RecvTimeoutError::Timeout);
            }
            // Take the tick first and wait for it afterwards, so that several receivers wait for different
            // ticks.
            let now = self.now();
            if self.take(due, due.max(now)) {
                if now < due && !sleep_until(WaitReason::ChanReceive, object, Some(instant)) {
                    return Err(RecvTimeoutError::Timeout); // a context ended the wait, and the tick is lost
                }
                return Ok(instant);
            }
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        let due = self.next.load(Ordering::Relaxed);
        due != NEVER && due <= self.now()
    }

    /// When the next tick is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.at(self.next.load(Ordering::Relaxed))
    }
}
