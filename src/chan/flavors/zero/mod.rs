//! Channels of capacity zero, without a buffer: a send and a receive meet.
//!
//! The operation that comes second finds the first in a queue. It copies the message straight from or to the
//! stack of the first one, and readies it. No waiter is woken in vain, and no lock is held while waking.
//!
//! The send of a select is special: it has no message before it is selected. So its meeting has two steps.
//! First the two sides agree: the receiver is claimed and waits without a timeout from then on, and the
//! select learns which receiver it met ([`Outcome::Peer`]). Then the select brings the message with
//! [`fulfil`](Zero::fulfil), or withdraws with [`withdraw`](Zero::withdraw) and the receiver starts again.
//!
//! Z1. The two queues of operations never hold nodes that could meet each other: an operation is queued only
//! if it found none to meet, under the lock.

pub(crate) mod select;

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};
use std::time::Instant;

use crate::base::atomic::{AtomicBool, Ordering};
use crate::base::lock::{Lock, Rank, Ranked};
use crate::chan::errors::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use crate::chan::select::engine::WaitLimit;
use crate::chan::waitq::{ELSEWHERE, Kind, Node, Outcome, Parker, Side, Wakes, finish};
use crate::sched::park::channel_op::{Caller, Inside, Stepwise};
use crate::sched::park::park_ready::park;
use crate::sched::run::runtime_section;
use crate::sched::types::waiter::Waiter;
use crate::sched::word::status::WaitReason;

/// The direction of an operation.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Send,
    Recv,
}

pub(super) struct State {
    senders: Side,
    receivers: Side,
}

impl Ranked for State {
    const RANK: Rank = Rank::Alone;
}

impl State {
    /// The side of operations in this direction, and the side of those that they meet.
    #[inline(always)]
    pub(super) fn sides(&mut self, way: Way) -> (&mut Side, &mut Side) {
        match way {
            Way::Send => (&mut self.senders, &mut self.receivers),
            Way::Recv => (&mut self.receivers, &mut self.senders),
        }
    }
}

/// A channel of capacity zero.
pub(crate) struct Zero<T> {
    pub(super) state: Lock<State>,
    pub(super) glance: Glance,
    _messages: PhantomData<T>,
}

/// A summary of the state that can be read without the lock. It is written under the lock. A reader may see
/// an old value; then its operation counts as having come a moment earlier, when that value was current. A
/// queued operation or a close that happened before the read is always seen.
pub(super) struct Glance {
    /// False only if no send waits.
    senders: AtomicBool,
    /// False only if no receive waits.
    receivers: AtomicBool,
    closed: AtomicBool,
}

impl Glance {
    fn new() -> Glance {
        let [senders, receivers, closed] = [false; 3].map(AtomicBool::new);
        Glance { senders, receivers, closed }
    }

    #[inline(always)]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// The flag that says whether operations in this direction may wait.
    #[inline(always)]
    fn waits(&self, way: Way) -> &AtomicBool {
        match way {
            Way::Send => &self.senders,
            Way::Recv => &self.receivers,
        }
    }

    /// Whether no operation in this direction waits, and the channel is open: then there is nothing to meet.
    #[inline(always)]
    pub(super) fn shows_nobody(&self, way: Way) -> bool {
        !self.waits(way).load(Ordering::Relaxed) && !self.is_closed()
    }
}

impl<T> Zero<T> {
    pub(crate) fn new() -> Zero<T> {
        let state = State { senders: Side::new(), receivers: Side::new() };
        Zero { state: Lock::new(state), glance: Glance::new(), _messages: PhantomData }
    }

    pub(crate) fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    // The queues.

    /// Claims the first operation in this direction that still waits.
    #[inline(always)]
    pub(super) fn claim(&self, state: &mut State, way: Way) -> Option<NonNull<Node>> {
        // `close` tells many receivers in portions and releases the lock in between: those that are left are
        // not to be met.
        if self.glance.is_closed() {
            return None;
        }
        let ops = &mut state.sides(way).0.ops;
        let node = ops.claim()?;
        self.glance.waits(way).store(!ops.is_empty(), Ordering::Relaxed);
        Some(node)
    }

    /// Queues an operation. Returns those who watched for one, to be woken once the lock is released.
    ///
    /// # Safety
    /// The node's owner follows the rules of `waitq.rs`.
    #[inline(always)]
    pub(super) unsafe fn publish(&self, state: &mut State, way: Way, node: *const Node) -> Wakes {
        let (own, other) = state.sides(way);
        // SAFETY: the caller's promise.
        unsafe { own.ops.push_back(node) };
        self.glance.waits(way).store(true, Ordering::Relaxed);
        let mut wakes = Wakes::new();
        other.watchers.claim_all(Outcome::Done, &mut wakes);
        wakes
    }

    /// Takes a node out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was queued with this kind.
    #[inline(always)]
    pub(super) unsafe fn retract(&self, _: &Inside, way: Way, node: *const Node, kind: Kind) {
        let mut state = self.state.lock_inside();
        let own = state.sides(way).0;
        // SAFETY: the caller's promise.
        unsafe { own.queue(kind).remove(node) };
        self.glance.waits(way).store(!own.ops.is_empty(), Ordering::Relaxed);
    }

    // Sending.

    pub(crate) fn try_send(&self, msg: T) -> Result<(), TrySendError<T>> {
        if self.glance.shows_nobody(Way::Recv) {
            return Err(TrySendError::Full(msg));
        }
        let msg = ManuallyDrop::new(msg);
        match self.send_from(&raw const *msg, WaitLimit::None) {
            Outcome::Done => Ok(()),
            Outcome::Disconnected => Err(TrySendError::Disconnected(ManuallyDrop::into_inner(msg))),
            _ => Err(TrySendError::Full(ManuallyDrop::into_inner(msg))),
        }
    }

    #[inline]
    pub(crate) fn send(&self, msg: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        let msg = ManuallyDrop::new(msg);
        let outcome = match deadline {
            None => self.send_forever(&raw const *msg),
            Some(deadline) => self.send_until(&raw const *msg, deadline),
        };
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::Disconnected => Err(SendTimeoutError::Disconnected(ManuallyDrop::into_inner(msg))),
            _ => Err(SendTimeoutError::Timeout(ManuallyDrop::into_inner(msg))),
        }
    }

    // Not inlined: the code that enters the runtime is long, and one copy for each T is enough.
    #[inline(never)]
    fn send_forever(&self, msg: *const T) -> Outcome {
        self.send_from(msg, WaitLimit::Forever)
    }

    #[cold]
    fn send_until(&self, msg: *const T, deadline: Instant) -> Outcome {
        self.send_from(msg, WaitLimit::Until(deadline))
    }

    /// Sends a message. `Done` means that the message was given away, `Pending` that nobody took it (in
    /// time).
    #[inline(always)]
    fn send_from(&self, msg: *const T, limit: WaitLimit) -> Outcome {
        match runtime_section::enter_from_user_code() {
            Some(visit) => self.send_in(visit, msg, limit),
            None => self.send_in_steps(msg, limit),
        }
    }

    #[cold]
    fn send_in_steps(&self, msg: *const T, limit: WaitLimit) -> Outcome {
        self.send_in(Stepwise::new(), msg, limit)
    }

    #[inline(always)]
    fn send_in(&self, visit: impl Caller, msg: *const T, limit: WaitLimit) -> Outcome {
        let mut state = self.state.lock_inside();
        if let Some(node) = self.claim(&mut state, Way::Recv) {
            drop(state);
            // SAFETY: the node is claimed, and a receiver's slot has room for a message of our type. The
            // caller gives the message away.
            let waiter = unsafe {
                ptr::copy_nonoverlapping(msg, (*node.as_ptr()).slot().cast::<T>(), 1);
                finish(node, Outcome::Done)
            };
            visit.ready(waiter);
            return Outcome::Done;
        }
        if self.glance.is_closed() {
            return Outcome::Disconnected;
        }
        if limit == WaitLimit::None {
            return Outcome::Pending;
        }
        Parker::of(visit, WaitReason::ChanSend, self.address(), limit.deadline()).wait(
            msg.cast_mut().cast(),
            |node| {
                // SAFETY: the parker keeps the node alive until it is claimed or retracted.
                let wakes = unsafe { self.publish(&mut state, Way::Send, node) };
                drop(state);
                wakes
            },
            // SAFETY: the node is alive, and was queued there with this kind.
            |node| unsafe { self.retract(&Inside::enter(), Way::Send, node, Kind::Op) },
        )
    }

    // Receiving.

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut msg = MaybeUninit::<T>::uninit();
        // SAFETY: `msg` has room for a message.
        match unsafe { self.try_recv_to(msg.as_mut_ptr()) } {
            // SAFETY: the receive is done, so `msg` holds a message.
            Outcome::Done => Ok(unsafe { msg.assume_init() }),
            Outcome::Disconnected => Err(TryRecvError::Disconnected),
            _ => Err(TryRecvError::Empty),
        }
    }

    #[inline]
    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut msg = MaybeUninit::<T>::uninit();
        let outcome = match deadline {
            None => self.recv_forever(msg.as_mut_ptr()),
            Some(deadline) => self.recv_until(msg.as_mut_ptr(), deadline),
        };
        match outcome {
            // SAFETY: the receive is done, so `msg` holds a message.
            Outcome::Done => Ok(unsafe { msg.assume_init() }),
            Outcome::Disconnected => Err(RecvTimeoutError::Disconnected),
            _ => Err(RecvTimeoutError::Timeout),
        }
    }

    // Not inlined, for the same reason as `send_forever`.
    #[inline(never)]
    fn recv_forever(&self, to: *mut T) -> Outcome {
        self.recv_to(to, WaitLimit::Forever)
    }

    #[cold]
    fn recv_until(&self, to: *mut T, deadline: Instant) -> Outcome {
        self.recv_to(to, WaitLimit::Until(deadline))
    }

    /// Like `try_recv`, but moves the message to `to`. The outcome is `Done`, `Disconnected` or, if no sender
    /// waits, `Pending`.
    ///
    /// # Safety
    /// `to` may be written to.
    #[inline]
    pub(crate) unsafe fn try_recv_to(&self, to: *mut T) -> Outcome {
        if self.glance.shows_nobody(Way::Send) {
            return Outcome::Pending;
        }
        self.recv_now(to)
    }

    // Not inlined, for the same reason as `send_forever`.
    #[inline(never)]
    fn recv_now(&self, to: *mut T) -> Outcome {
        self.recv_to(to, WaitLimit::None)
    }

    /// Receives a message. `Done` means that `to` holds a message, `Pending` that there was none (in time).
    #[inline(always)]
    fn recv_to(&self, to: *mut T, limit: WaitLimit) -> Outcome {
        loop {
            let outcome = match runtime_section::enter_from_user_code() {
                Some(visit) => self.recv_in(visit, to, limit),
                None => self.recv_in_steps(to, limit),
            };
            if outcome != Outcome::Retry {
                return outcome;
            }
        }
    }

    #[cold]
    fn recv_in_steps(&self, to: *mut T, limit: WaitLimit) -> Outcome {
        self.recv_in(Stepwise::new(), to, limit)
    }

    #[inline(always)]
    fn recv_in(&self, visit: impl Caller, to: *mut T, limit: WaitLimit) -> Outcome {
        let mut state = self.state.lock_inside();
        if let Some(node) = self.claim(&mut state, Way::Send) {
            drop(state);
            // SAFETY: the node is claimed, and `to` may be written to.
            return unsafe { self.meet_sender(visit, node, to) };
        }
        if self.glance.is_closed() {
            return Outcome::Disconnected;
        }
        if limit == WaitLimit::None {
            return Outcome::Pending;
        }
        Parker::of(visit, WaitReason::ChanReceive, self.address(), limit.deadline()).wait(
            to.cast(),
            |node| {
                // SAFETY: the parker keeps the node alive until it is claimed or retracted.
                let wakes = unsafe { self.publish(&mut state, Way::Recv, node) };
                drop(state);
                wakes
            },
            // SAFETY: the node is alive, and was queued there with this kind.
            |node| unsafe { self.retract(&Inside::enter(), Way::Recv, node, Kind::Op) },
        )
    }

    /// Takes the message of a waiting sender. If the sender belongs to a select, waits until the select
    /// brings the message.
    ///
    /// # Safety
    /// The caller has claimed the node of a sender; `to` may be written to.
    #[inline(always)]
    unsafe fn meet_sender(&self, visit: impl Caller, sender: NonNull<Node>, to: *mut T) -> Outcome {
        // SAFETY: the node is claimed.
        let slot = unsafe { (*sender.as_ptr()).slot().cast::<T>() };
        if !slot.is_null() {
            // SAFETY: the sender's slot holds a message of our type, and we take it.
            let waiter = unsafe {
                ptr::copy_nonoverlapping(slot, to, 1);
                finish(sender, Outcome::Done)
            };
            visit.ready(waiter);
            return Outcome::Done;
        }
        let waiter = visit.waiter();
        drop(visit);
        // SAFETY: the caller's promise.
        unsafe { meet_select(waiter, sender, to.cast()) }
    }

    // The channel as a whole.

    /// The numbers of operations that wait: sends, receives.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.senders.ops.len(), state.receivers.ops.len())
    }

    /// Closes the channel: no operations meet here from now on, and all waiters are woken. Returns false if
    /// it was closed before.
    pub(crate) fn close(&self) -> bool {
        let mut state = self.state.lock();
        if self.glance.closed.swap(true, Ordering::Relaxed) {
            return false;
        }
        let mut wakes = Wakes::new();
        state.senders.disconnect(&mut wakes);
        while state.receivers.disconnect_some(&mut wakes) {
            drop(state);
            std::mem::replace(&mut wakes, Wakes::new()).fire();
            state = self.state.lock();
        }
        drop(state);
        wakes.fire();
        true
    }
}

/// Waits until the select that `sender` belongs to brings its message.
///
/// # Safety
/// The caller is `own` and has claimed the node. The message may be written to `to`.
#[cold]
unsafe fn meet_select(own: Waiter, sender: NonNull<Node>, to: *mut u8) -> Outcome {
    // Our node is in no queue: only the select knows it.
    let mut node = Node::plain(own, to);
    let own = NonNull::from(&mut node);
    // SAFETY: the node is claimed.
    let waiter = unsafe { finish(sender, Outcome::Peer(own)) };
    waiter.ready();
    park(WaitReason::ChanReceive, ELSEWHERE);
    // SAFETY: the select wrote the outcome before the `ready` that ended our wait.
    unsafe { (*own.as_ptr()).outcome() }
}
