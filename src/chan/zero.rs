//! Channels without a buffer: a send and a receive meet.
//!
//! Whoever comes second finds the first in a queue, copies the message straight from or to its stack and
//! wakes it. Nobody is woken in vain, and no lock is held while waking.
//!
//! The send of a select is special: it has no message before it was selected. So its meeting has two steps.
//! First the two agree: the receiver is claimed, waits for good (no timeout ends it any more), and the
//! select learns whom it met ([`Outcome::Peer`]). Then the select brings the message with
//! [`fulfil`](Zero::fulfil), or withdraws with [`withdraw`](Zero::withdraw) and the receiver starts again.
//!
//! Z1. At most one of the two queues of operations has nodes that could meet those of the other: an operation
//! that is queued found none to meet, under the lock.

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};
use std::time::Instant;

use crate::chan::engine::Patience;
use crate::chan::errors::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use crate::chan::waitq::{ELSEWHERE, Kind, Node, Outcome, Parker, Side, Wakes, finish};
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;
use crate::sched::section;
use crate::sched::visit::{Stepwise, Visit};
use crate::sched::waiter::{Waiter, park};

struct State {
    senders: Side,
    receivers: Side,
    closed: bool,
}

/// A channel of capacity zero.
pub(crate) struct Zero<T> {
    state: Lock<State>,
    _messages: PhantomData<T>,
}

impl<T> Zero<T> {
    pub(crate) fn new() -> Zero<T> {
        let state = State { senders: Side::new(), receivers: Side::new(), closed: false };
        Zero { state: Lock::new(state), _messages: PhantomData }
    }

    pub(super) fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    // Sending.

    pub(crate) fn try_send(&self, msg: T) -> Result<(), TrySendError<T>> {
        let msg = ManuallyDrop::new(msg);
        match self.send_from(&raw const *msg, Patience::None) {
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

    // Not inlined: the code of a visit is long, and once for each T is enough.
    #[inline(never)]
    fn send_forever(&self, msg: *const T) -> Outcome {
        self.send_from(msg, Patience::Forever)
    }

    #[cold]
    fn send_until(&self, msg: *const T, deadline: Instant) -> Outcome {
        self.send_from(msg, Patience::Until(deadline))
    }

    /// `Done` means that the message was given away, `Pending` that nobody took it (in time).
    #[inline(always)]
    fn send_from(&self, msg: *const T, patience: Patience) -> Outcome {
        match section::visit() {
            Some(visit) => self.send_in(visit, msg, patience),
            None => self.send_in_steps(msg, patience),
        }
    }

    #[cold]
    fn send_in_steps(&self, msg: *const T, patience: Patience) -> Outcome {
        self.send_in(Stepwise::new(), msg, patience)
    }

    #[inline(always)]
    fn send_in(&self, visit: impl Visit, msg: *const T, patience: Patience) -> Outcome {
        let mut state = self.state.lock_inside();
        if let Some(node) = state.receivers.ops.claim() {
            drop(state);
            // SAFETY: the node is claimed; the slot of a receiver is for a message of our type. The
            // caller gives the message away.
            let waiter = unsafe {
                ptr::copy_nonoverlapping(msg, (*node.as_ptr()).slot.cast::<T>(), 1);
                finish(node, Outcome::Done)
            };
            visit.ready(waiter);
            return Outcome::Done;
        }
        if state.closed {
            return Outcome::Disconnected;
        }
        if patience == Patience::None {
            return Outcome::Pending;
        }
        Parker::of(visit, WaitReason::ChanSend, self.address(), patience.deadline()).wait(
            msg.cast_mut().cast(),
            |node| {
                // SAFETY: the parker keeps the node until it is claimed or retracted.
                unsafe { state.senders.ops.push(node) };
                let wakes = tell(&mut state.receivers);
                drop(state);
                wakes
            },
            // SAFETY: as above.
            |node| unsafe { self.state.lock().senders.ops.unlink(node) },
        )
    }

    // Receiving.

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut msg = MaybeUninit::<T>::uninit();
        match self.recv_to(msg.as_mut_ptr(), Patience::None) {
            // SAFETY: done, hence there is a message.
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
            // SAFETY: done, hence there is a message.
            Outcome::Done => Ok(unsafe { msg.assume_init() }),
            Outcome::Disconnected => Err(RecvTimeoutError::Disconnected),
            _ => Err(RecvTimeoutError::Timeout),
        }
    }

    // As `send_forever`.
    #[inline(never)]
    fn recv_forever(&self, to: *mut T) -> Outcome {
        self.recv_to(to, Patience::Forever)
    }

    #[cold]
    fn recv_until(&self, to: *mut T, deadline: Instant) -> Outcome {
        self.recv_to(to, Patience::Until(deadline))
    }

    /// As `try_recv`, into `to`. The outcome is `Done`, `Disconnected` or, if no sender waits, `Pending`.
    ///
    /// # Safety
    /// `to` may be written to.
    pub(crate) unsafe fn try_recv_to(&self, to: *mut T) -> Outcome {
        self.recv_to(to, Patience::None)
    }

    /// `Done` means that `to` holds a message, `Pending` that there was none (in time).
    #[inline(always)]
    fn recv_to(&self, to: *mut T, patience: Patience) -> Outcome {
        loop {
            let outcome = match section::visit() {
                Some(visit) => self.recv_in(visit, to, patience),
                None => self.recv_in_steps(to, patience),
            };
            if outcome != Outcome::Retry {
                return outcome;
            }
        }
    }

    #[cold]
    fn recv_in_steps(&self, to: *mut T, patience: Patience) -> Outcome {
        self.recv_in(Stepwise::new(), to, patience)
    }

    #[inline(always)]
    fn recv_in(&self, visit: impl Visit, to: *mut T, patience: Patience) -> Outcome {
        let mut state = self.state.lock_inside();
        if let Some(node) = state.senders.ops.claim() {
            drop(state);
            // SAFETY: claimed, and `to` may be written to.
            return unsafe { self.meet_sender(visit, node, to) };
        }
        if state.closed {
            return Outcome::Disconnected;
        }
        if patience == Patience::None {
            return Outcome::Pending;
        }
        Parker::of(visit, WaitReason::ChanReceive, self.address(), patience.deadline()).wait(
            to.cast(),
            |node| {
                // SAFETY: the parker keeps the node until it is claimed or retracted.
                unsafe { state.receivers.ops.push(node) };
                let wakes = tell(&mut state.senders);
                drop(state);
                wakes
            },
            // SAFETY: as above.
            |node| unsafe { self.state.lock().receivers.ops.unlink(node) },
        )
    }

    /// Takes the message of a waiting sender, or waits until the select that it belongs to brings it.
    ///
    /// # Safety
    /// The caller has claimed the node of a sender; `to` may be written to.
    #[inline(always)]
    unsafe fn meet_sender(&self, visit: impl Visit, sender: NonNull<Node>, to: *mut T) -> Outcome {
        // SAFETY: the node is claimed.
        let slot = unsafe { (*sender.as_ptr()).slot.cast::<T>() };
        if !slot.is_null() {
            // SAFETY: a sender's slot holds a message of our type, and we take it.
            let waiter = unsafe {
                ptr::copy_nonoverlapping(slot, to, 1);
                finish(sender, Outcome::Done)
            };
            visit.ready(waiter);
            return Outcome::Done;
        }
        let waiter = visit.waiter();
        drop(visit);
        // SAFETY: the caller's.
        unsafe { meet_select(waiter, sender, to.cast()) }
    }

    // Sends of selects.

    /// Claims a waiting receiver: `Peer`, `Disconnected`, or `Pending` if there is none.
    pub(crate) fn try_meet(&self) -> Outcome {
        let mut state = self.state.lock();
        match state.receivers.ops.claim() {
            Some(node) => Outcome::Peer(node),
            None if state.closed => Outcome::Disconnected,
            None => Outcome::Pending,
        }
    }

    /// Brings the message to the receiver that was met.
    ///
    /// # Safety
    /// `peer` is from an `Outcome::Peer` of this channel, used once; the message is given away.
    pub(crate) unsafe fn fulfil(&self, peer: NonNull<Node>, msg: *const T) {
        // SAFETY: the caller's; the receiver waits for nobody else, and has a slot.
        let waiter = unsafe {
            ptr::copy_nonoverlapping(msg, (*peer.as_ptr()).slot.cast::<T>(), 1);
            finish(peer, Outcome::Done)
        };
        waiter.ready();
    }

    /// Sends the receiver that was met away without a message.
    ///
    /// # Safety
    /// `peer` is from an `Outcome::Peer` of this channel, used once.
    pub(crate) unsafe fn withdraw(&self, peer: NonNull<Node>) {
        // SAFETY: the caller's.
        let waiter = unsafe { finish(peer, Outcome::Retry) };
        waiter.ready();
    }

    /// Queues a select's send, unless it is ready now: then the result is false.
    ///
    /// # Safety
    /// The node's owner keeps the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue_send(&self, node: *mut Node, kind: Kind) -> bool {
        // SAFETY: the caller's.
        unsafe { self.enqueue(node, kind, |s| (&mut s.senders, &mut s.receivers)) }
    }

    /// Queues a select's receive, unless it is ready now: then the result is false.
    ///
    /// # Safety
    /// The node's owner keeps the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue_recv(&self, node: *mut Node, kind: Kind) -> bool {
        // SAFETY: the caller's.
        unsafe { self.enqueue(node, kind, |s| (&mut s.receivers, &mut s.senders)) }
    }

    /// # Safety
    /// The node's owner keeps the rules of `waitq.rs`.
    unsafe fn enqueue(
        &self,
        node: *mut Node,
        kind: Kind,
        sides: fn(&mut State) -> (&mut Side, &mut Side),
    ) -> bool {
        let mut state = self.state.lock();
        let closed = state.closed;
        let (own, other) = sides(&mut state);
        // SAFETY: the node is the caller's, and not yet published.
        if closed || other.ops.has_claimable(unsafe { (*node).wait() }, |_| true) {
            return false;
        }
        // SAFETY: the caller's.
        unsafe { own.queue(kind).push(node) };
        let wakes = if kind == Kind::Op { tell(other) } else { Wakes::new() };
        drop(state);
        wakes.fire();
        true
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was published with this kind.
    pub(crate) unsafe fn dequeue_send(&self, node: *mut Node, kind: Kind) {
        // SAFETY: the caller's.
        unsafe { self.state.lock().senders.queue(kind).unlink(node) };
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was published with this kind.
    pub(crate) unsafe fn dequeue_recv(&self, node: *mut Node, kind: Kind) {
        // SAFETY: the caller's.
        unsafe { self.state.lock().receivers.queue(kind).unlink(node) };
    }

    // The channel as a whole.

    /// Operations that wait: of senders, of receivers.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.senders.ops.len(), state.receivers.ops.len())
    }

    /// Nobody meets here any more; those who wait are told. False if that was so before.
    pub(crate) fn close(&self) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        state.closed = true;
        let mut wakes = Wakes::new();
        state.receivers.disconnect(&mut wakes);
        state.senders.disconnect(&mut wakes);
        drop(state);
        wakes.fire();
        true
    }

    pub(crate) fn is_send_ready(&self) -> bool {
        let state = self.state.lock();
        state.closed || state.receivers.ops.has_claimable(ptr::null(), |_| true)
    }

    pub(crate) fn is_recv_ready(&self) -> bool {
        let state = self.state.lock();
        state.closed || state.senders.ops.has_claimable(ptr::null(), |_| true)
    }
}

/// Waits until the select that `sender` belongs to brings its message.
///
/// # Safety
/// The caller, `own`, has claimed the node; the message may be written to `to`.
#[cold]
unsafe fn meet_select(own: Waiter, sender: NonNull<Node>, to: *mut u8) -> Outcome {
    // We are in no queue: the select alone knows our node.
    let mut node = Node::plain(own, to);
    let own = NonNull::from(&mut node);
    // SAFETY: the node is claimed.
    let waiter = unsafe { finish(sender, Outcome::Peer(own)) };
    waiter.ready();
    park(WaitReason::ChanReceive, ELSEWHERE);
    // SAFETY: written before the `ready` that ended our wait.
    unsafe { (*own.as_ptr()).outcome }
}

/// Somebody to meet has come: tells those who watch for that.
#[inline]
fn tell(side: &mut Side) -> Wakes {
    let mut wakes = Wakes::new();
    side.watchers.claim_all(Outcome::Done, &mut wakes);
    wakes
}
