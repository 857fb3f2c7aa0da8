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

use crate::atomic::{AtomicBool, Ordering};
use crate::chan::engine::Patience;
use crate::chan::errors::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use crate::chan::waitq::{ELSEWHERE, Kind, Node, Outcome, Parker, Side, Wakes, finish};
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;
use crate::sched::section;
use crate::sched::visit::{Inside, Stepwise, Visit};
use crate::sched::waiter::{Waiter, park};

/// What an operation does.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Send,
    Recv,
}

pub(super) struct State {
    senders: Side,
    receivers: Side,
}

impl State {
    /// The side of such operations, and that of those they meet.
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

/// What can be seen at a glance: written under the lock, read without it. Who sees that nobody waits could have come a moment
/// earlier, when nobody did; a queued operation or a close that it knows of, it sees.
pub(super) struct Glance {
    /// False only if no operation to send waits.
    senders: AtomicBool,
    /// False only if no operation to receive waits.
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

    /// Whether such operations may wait.
    #[inline(always)]
    fn waits(&self, way: Way) -> &AtomicBool {
        match way {
            Way::Send => &self.senders,
            Way::Recv => &self.receivers,
        }
    }

    /// Whether it is in vain to look for such an operation to meet.
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

    pub(super) fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    // The queues.

    /// Takes the first operation that still waits.
    #[inline(always)]
    pub(super) fn claim(&self, state: &mut State, way: Way) -> Option<NonNull<Node>> {
        let ops = &mut state.sides(way).0.ops;
        let node = ops.claim()?;
        self.glance.waits(way).store(!ops.is_empty(), Ordering::Relaxed);
        Some(node)
    }

    /// Queues an operation. Returns those who watch for one.
    ///
    /// # Safety
    /// The node's owner keeps the rules of `waitq.rs`.
    #[inline(always)]
    pub(super) unsafe fn publish(&self, state: &mut State, way: Way, node: *mut Node) -> Wakes {
        let (own, other) = state.sides(way);
        // SAFETY: the caller's.
        unsafe { own.ops.push(node) };
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
    pub(super) unsafe fn retract(&self, _: &Inside, way: Way, node: *mut Node, kind: Kind) {
        let mut state = self.state.lock_inside();
        let own = state.sides(way).0;
        // SAFETY: the caller's.
        unsafe { own.queue(kind).unlink(node) };
        self.glance.waits(way).store(!own.ops.is_empty(), Ordering::Relaxed);
    }

    // Sending.

    pub(crate) fn try_send(&self, msg: T) -> Result<(), TrySendError<T>> {
        if self.glance.shows_nobody(Way::Recv) {
            return Err(TrySendError::Full(msg));
        }
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
        if let Some(node) = self.claim(&mut state, Way::Recv) {
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
        if self.glance.is_closed() {
            return Outcome::Disconnected;
        }
        if patience == Patience::None {
            return Outcome::Pending;
        }
        Parker::of(visit, WaitReason::ChanSend, self.address(), patience.deadline()).wait(
            msg.cast_mut().cast(),
            |node| {
                // SAFETY: the parker keeps the node until it is claimed or retracted.
                let wakes = unsafe { self.publish(&mut state, Way::Send, node) };
                drop(state);
                wakes
            },
            // SAFETY: as above.
            |node| unsafe { self.retract(&Inside::enter(), Way::Send, node, Kind::Op) },
        )
    }

    // Receiving.

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut msg = MaybeUninit::<T>::uninit();
        // SAFETY: a place for a message.
        match unsafe { self.try_recv_to(msg.as_mut_ptr()) } {
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
    #[inline]
    pub(crate) unsafe fn try_recv_to(&self, to: *mut T) -> Outcome {
        if self.glance.shows_nobody(Way::Send) {
            return Outcome::Pending;
        }
        self.recv_now(to)
    }

    // As `send_forever`.
    #[inline(never)]
    fn recv_now(&self, to: *mut T) -> Outcome {
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
        if let Some(node) = self.claim(&mut state, Way::Send) {
            drop(state);
            // SAFETY: claimed, and `to` may be written to.
            return unsafe { self.meet_sender(visit, node, to) };
        }
        if self.glance.is_closed() {
            return Outcome::Disconnected;
        }
        if patience == Patience::None {
            return Outcome::Pending;
        }
        Parker::of(visit, WaitReason::ChanReceive, self.address(), patience.deadline()).wait(
            to.cast(),
            |node| {
                // SAFETY: the parker keeps the node until it is claimed or retracted.
                let wakes = unsafe { self.publish(&mut state, Way::Recv, node) };
                drop(state);
                wakes
            },
            // SAFETY: as above.
            |node| unsafe { self.retract(&Inside::enter(), Way::Recv, node, Kind::Op) },
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
        if self.glance.closed.swap(true, Ordering::Relaxed) {
            return false;
        }
        let mut wakes = Wakes::new();
        state.receivers.disconnect(&mut wakes);
        state.senders.disconnect(&mut wakes);
        drop(state);
        wakes.fire();
        true
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
