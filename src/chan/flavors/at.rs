//! The channel of `after` and `at`: it delivers one message, the instant at which it is due. There is no
//! sender, no timer and no thread: the receivers wait with a deadline.

use std::time::Instant;

use crate::base::atomic::{AtomicUsize, Ordering};
use crate::chan::errors::{RecvTimeoutError, TryRecvError};
use crate::chan::waitq::{ELSEWHERE, sleep_until};
use crate::sched::park::clock;
use crate::sched::park::limit;
use crate::sched::word::status::WaitReason;

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

    /// Takes the message, which is due. Returns false if another receiver took it first.
    fn take(&self) -> bool {
        // Relaxed: the message publishes no other memory.
        self.received.swap(1, Ordering::Relaxed) == 0
    }

    pub(crate) fn try_recv(&self) -> Result<Instant, TryRecvError> {
        if self.is_ready() && self.take() { Ok(self.when) } else { Err(TryRecvError::Empty) }
    }

    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Result<Instant, RecvTimeoutError> {
        let _unlimited = deadline.is_none().then(limit::suspend);
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
        // The message was taken, and no other will come: wait until the deadline, or forever.
        sleep_until(WaitReason::ChanReceive, object, deadline);
        Err(RecvTimeoutError::Timeout)
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.is_received() && clock::now() >= self.when
    }

    /// When the message is due; `None` once it was received.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.is_received()).then_some(self.when)
    }
}
