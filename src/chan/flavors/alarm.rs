//! The channel of a `time::Timer` or `time::Ticker`: it delivers the instant at which it was due, and that
//! time can be changed. There is no sender and no timer: a message is there once its time has come, and the
//! receivers wait with a deadline. They are queued only so that a change of the time can wake them.
//!
//! So a timer that nobody waits for costs nothing, and results are exact. A message is either received once,
//! or a later `set` or `stop` reports that it was still pending: never both and never neither. As in Go,
//! `set` and `stop` discard a message whose time has come but which nobody has received.

use std::ptr;
use std::time::{Duration, Instant};

use crate::base::lock::{Lock, Rank, Ranked};
use crate::chan::errors::{RecvTimeoutError, TryRecvError};
use crate::chan::waitq::{ELSEWHERE, Kind, Node, Outcome, Parker, Side, Wakes};
use crate::sched::park::channel_op::Inside;
use crate::sched::park::clock;
use crate::sched::park::limit;
use crate::sched::word::status::WaitReason;

/// When the next message is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// Not set, or already received.
    Off,
    At(Instant),
    /// Set to a time that `Instant` cannot represent: no message will come.
    Never,
}

/// The channel of a timer or ticker.
pub(crate) struct Alarm {
    state: Lock<State>,
}

struct State {
    next: Next,
    /// The period of a ticker; `None` for a timer.
    period: Option<Duration>,
    receivers: Side,
}

impl Ranked for State {
    const RANK: Rank = Rank::Alone;
}

impl State {
    fn is_due(&self, now: Instant) -> bool {
        matches!(self.next, Next::At(when) if when <= now)
    }

    /// Takes the message, if its time has come. Ticks that were missed are dropped; the next one keeps the
    /// rhythm.
    fn take(&mut self, now: Instant) -> Option<Instant> {
        let Next::At(when) = self.next else { return None };
        let late = now.checked_duration_since(when)?;
        self.next = match self.period {
            None => Next::Off,
            Some(period) => {
                let missed = late.as_nanos() / period.as_nanos().max(1);
                let ahead = u32::try_from(missed + 1).ok().and_then(|ticks| period.checked_mul(ticks));
                match ahead.and_then(|ahead| when.checked_add(ahead)) {
                    Some(next) => Next::At(next),
                    // The number of missed ticks, or the next instant, cannot be represented: start a new
                    // rhythm from now.
                    None => now.checked_add(period).map_or(Next::Never, Next::At),
                }
            }
        };
        Some(when)
    }

    fn deadline(&self) -> Option<Instant> {
        match self.next {
            Next::At(when) => Some(when),
            Next::Off | Next::Never => None,
        }
    }
}

impl Alarm {
    /// Creates the channel. The first message comes at `when` (`None`: a time that `Instant` cannot
    /// represent), further ones every `period`.
    pub(crate) fn new(when: Option<Instant>, period: Option<Duration>) -> Alarm {
        let next = when.map_or(Next::Never, Next::At);
        Alarm { state: Lock::new(State { next, period, receivers: Side::new() }) }
    }

    /// Changes the time, and the period of a ticker. Returns true if a message was pending: not due yet, or
    /// due but not received.
    pub(crate) fn set(&self, when: Option<Instant>, period: Option<Duration>) -> bool {
        self.change(when.map_or(Next::Never, Next::At), period)
    }

    /// Stops the timer: no message comes until `set`. Returns true if a message was pending: not due yet, or
    /// due but not received.
    pub(crate) fn stop(&self) -> bool {
        self.change(Next::Off, None)
    }

    fn change(&self, next: Next, period: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.next, next);
        state.period = period;
        let mut wakes = Wakes::new();
        state.receivers.ops.claim_all(Outcome::Retry, &mut wakes);
        state.receivers.watchers.claim_all(Outcome::Retry, &mut wakes);
        drop(state);
        wakes.fire();
        before != Next::Off
    }

    pub(crate) fn try_recv(&self) -> Result<Instant, TryRecvError> {
        self.state.lock().take(clock::now()).ok_or(TryRecvError::Empty)
    }

    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Result<Instant, RecvTimeoutError> {
        let _unlimited = deadline.is_none().then(limit::suspend);
        let parker = Parker::new(WaitReason::ChanReceive, ELSEWHERE, deadline);
        loop {
            let mut state = self.state.lock();
            let now = clock::now();
            if let Some(instant) = state.take(now) {
                return Ok(instant);
            }
            if deadline.is_some_and(|deadline| deadline <= now || limit::is_over()) {
                return Err(RecvTimeoutError::Timeout);
            }
            let until = deadline.into_iter().chain(state.deadline()).min();
            // However the wait ends, look at the time again.
            parker.until(until).wait(
                ptr::null_mut(),
                |node| {
                    // SAFETY: the parker keeps the node alive until it is claimed or retracted.
                    unsafe { state.receivers.ops.push_back(node) };
                    drop(state);
                    Wakes::new()
                },
                // SAFETY: the node is alive, and was queued there.
                |node| unsafe { _ = self.state.lock().receivers.ops.remove(node) },
            );
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state.lock().is_due(clock::now())
    }

    /// When the message is due, if one is set.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.state.lock().deadline()
    }

    /// Queues a select's receive. Returns false, and does not queue it, if it is ready now.
    ///
    /// # Safety
    /// The node's owner follows the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue(&self, _: &mut Inside, node: *const Node, kind: Kind) -> bool {
        let mut state = self.state.lock_inside();
        if state.is_due(clock::now()) {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe { state.receivers.queue(kind).push_back(node) };
        true
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was queued with this kind.
    pub(crate) unsafe fn dequeue(&self, _: &Inside, node: *const Node, kind: Kind) {
        // SAFETY: the caller's promise.
        unsafe { self.state.lock_inside().receivers.queue(kind).remove(node) };
    }
}
