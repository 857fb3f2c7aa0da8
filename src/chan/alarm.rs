//! The channel of a `time::Timer` or `Ticker`: it delivers its own time, which can be changed. There is no sender and
//! no timer: a message is there when its time has come, and the receivers wait with a deadline. They are queued only
//! to be told when the time changes.
//!
//! So a timer that nobody waits for costs nothing, and results are exact: the message of a time that was set is
//! received once, or a later change of the time says that it was not, never both and never neither. As in Go, a message
//! whose time has come but which nobody received is taken back by a change.

use std::ptr;
use std::time::{Duration, Instant};

use crate::chan::errors::{RecvTimeoutError, TryRecvError};
use crate::chan::waitq::{ELSEWHERE, Kind, Node, Outcome, Parker, Side, Wakes};
use crate::context::ambient;
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;
use crate::sched::visit::Inside;
use crate::time::clock;

/// When the next message is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// It is not set, or was received.
    Off,
    At(Instant),
    /// Set to a time that cannot be counted.
    Never,
}

pub(crate) struct Alarm {
    state: Lock<State>,
}

struct State {
    next: Next,
    /// Of a ticker.
    period: Option<Duration>,
    receivers: Side,
}

impl State {
    fn is_due(&self, now: Instant) -> bool {
        matches!(self.next, Next::At(when) if when <= now)
    }

    /// Takes the message, if its time has come. Ticks that were missed are dropped; the next one keeps the pace.
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
                    // So many ticks were missed that they cannot be counted: the pace starts anew.
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
    /// The first message comes at `when`, `None` being a time that cannot be counted; further ones every `period`.
    pub(crate) fn new(when: Option<Instant>, period: Option<Duration>) -> Alarm {
        let next = when.map_or(Next::Never, Next::At);
        Alarm { state: Lock::new(State { next, period, receivers: Side::new() }) }
    }

    /// Changes the time, and the period of a ticker. True: a message was still to come, or to be received.
    pub(crate) fn set(&self, when: Option<Instant>, period: Option<Duration>) -> bool {
        self.change(when.map_or(Next::Never, Next::At), period)
    }

    /// No message comes until `set`. True: one was still to come, or to be received.
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
        let _unlimited = deadline.is_none().then(ambient::suspend);
        let parker = Parker::new(WaitReason::ChanReceive, ELSEWHERE, deadline);
        loop {
            let mut state = self.state.lock();
            let now = clock::now();
            if let Some(instant) = state.take(now) {
                return Ok(instant);
            }
            if deadline.is_some_and(|deadline| deadline <= now || ambient::is_over()) {
                return Err(RecvTimeoutError::Timeout);
            }
            let until = deadline.into_iter().chain(state.deadline()).min();
            // However the wait ends, we look again.
            parker.until(until).wait(
                ptr::null_mut(),
                |node| {
                    // SAFETY: `wait` keeps the node until it is claimed or retracted.
                    unsafe { state.receivers.ops.push(node) };
                    drop(state);
                    Wakes::new()
                },
                // SAFETY: as above.
                |node| unsafe { self.state.lock().receivers.ops.unlink(node) },
            );
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state.lock().is_due(clock::now())
    }

    /// When a select must look again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.state.lock().deadline()
    }

    /// Queues a receive of a select, unless it is ready now: then the result is false.
    ///
    /// # Safety
    /// The node's owner keeps the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue(&self, _: &mut Inside, node: *mut Node, kind: Kind) -> bool {
        let mut state = self.state.lock_inside();
        if state.is_due(clock::now()) {
            return false;
        }
        // SAFETY: the caller's.
        unsafe { state.receivers.queue(kind).push(node) };
        true
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was queued with this kind.
    pub(crate) unsafe fn dequeue(&self, _: &Inside, node: *mut Node, kind: Kind) {
        // SAFETY: the caller's.
        unsafe { self.state.lock_inside().receivers.queue(kind).unlink(node) };
    }
}
