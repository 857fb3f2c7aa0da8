//! A channel that delivers one message, its own time. There is no sender, no timer and no thread: the
//! receivers wait with a deadline.

use std::time::Instant;

use crate::atomic::{AtomicUsize, Ordering};
use crate::chan::errors::{RecvTimeoutError, TryRecvError};
use crate::chan::waitq::{ELSEWHERE, sleep_until};
use crate::context::ambient;
use crate::sched::reason::WaitReason;
use crate::time::clock;

/// The channel of `after` and `at`.
pub(crate) struct At {
    when: Instant,
    /// 1 once the message was received.
    received: AtomicUsize,
}

impl At {
    pub(crate) fn new(when: Instant) -> At {
        At { when, received: AtomicUsize::new(0) }
    }

    fn is_received(&self) -> bool {
        self.received.load(Ordering::Relaxed) != 0
    }

    /// Takes the message, which is due. False if somebody else did.
    fn take(&self) -> bool {
        // Nothing travels with the message: Relaxed.
        self.received.swap(1, Ordering::Relaxed) == 0
    }

    pub(crate) fn try_recv(&self) -> Result<Instant, TryRecvError> {
        if self.is_ready() && self.take() { Ok(self.when) } else { Err(TryRecvError::Empty) }
    }

    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Result<Instant, RecvTimeoutError> {
        let _unlimited = deadline.is_none().then(ambient::suspend);
        let object = ELSEWHERE;
        if !self.is_received() {
            let now = clock::now();
            if now < self.when {
                let until = deadline.map_or(self.when, |deadline| deadline.min(self.when));
                let came = now >= until || sleep_until(WaitReason::ChanReceive, object, Some(until));
                if !came || until < self.when {
                    return Err(RecvTimeoutError::Timeout);
                }
            }
            if self.take() {
                return Ok(self.when);
            }
        }
        // No other message will come.
        sleep_until(WaitReason::ChanReceive, object, deadline);
        Err(RecvTimeoutError::Timeout)
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.is_received() && clock::now() >= self.when
    }

    /// When a select must look again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.is_received()).then_some(self.when)
    }
}
