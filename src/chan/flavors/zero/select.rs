//! The part that channels of capacity zero play in selects: sends whose message comes later, and queuing for
//! a select that waits at several channels.

use std::ptr::{self, NonNull};
use std::time::Instant;

use crate::chan::flavors::zero::{Way, Zero};
use crate::chan::select::handle::Handle;
use crate::chan::waitq::{Kind, Node, Outcome, Wakes, finish};
use crate::sched::park::channel_op::Inside;

impl<T> Zero<T> {
    /// Claims a waiting receiver. The outcome is `Peer`, `Disconnected`, or `Pending` if none waits.
    pub(crate) fn try_meet(&self) -> Outcome {
        if self.glance.shows_nobody(Way::Recv) {
            return Outcome::Pending;
        }
        let mut state = self.state.lock_from_user_code();
        match self.claim(&mut state, Way::Recv) {
            Some(node) => Outcome::Peer(node),
            None if self.glance.is_closed() => Outcome::Disconnected,
            None => Outcome::Pending,
        }
    }

    /// Brings the message to the receiver that was met.
    ///
    /// # Safety
    /// `peer` is from an `Outcome::Peer` of this channel and is used once. The caller gives the message away.
    pub(crate) unsafe fn fulfil(&self, peer: NonNull<Node>, msg: *const T) {
        // SAFETY: the caller's promise. The receiver has a slot, and only we can end its wait.
        let waiter = unsafe {
            ptr::copy_nonoverlapping(msg, (*peer.as_ptr()).slot().cast::<T>(), 1);
            finish(peer, Outcome::Done)
        };
        waiter.ready();
    }

    /// Wakes the receiver that was met, without a message: it starts again.
    ///
    /// # Safety
    /// `peer` is from an `Outcome::Peer` of this channel and is used once.
    pub(crate) unsafe fn withdraw(&self, peer: NonNull<Node>) {
        // SAFETY: the caller's promise.
        let waiter = unsafe { finish(peer, Outcome::Retry) };
        waiter.ready();
    }

    /// Queues a select's send. Returns false, and does not queue it, if it is ready now.
    ///
    /// # Safety
    /// The node's owner follows the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue_send(&self, visit: &mut Inside, node: *const Node, kind: Kind) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.enqueue(visit, Way::Send, node, kind) }
    }

    /// Queues a select's receive. Returns false, and does not queue it, if it is ready now.
    ///
    /// # Safety
    /// The node's owner follows the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue_recv(&self, visit: &mut Inside, node: *const Node, kind: Kind) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.enqueue(visit, Way::Recv, node, kind) }
    }

    /// # Safety
    /// The node's owner follows the rules of `waitq.rs`.
    #[inline(always)]
    unsafe fn enqueue(&self, visit: &mut Inside, way: Way, node: *const Node, kind: Kind) -> bool {
        let mut state = self.state.lock_inside();
        let (own, other) = state.sides(way);
        // SAFETY: the node belongs to the caller, and is not published yet.
        if self.glance.is_closed() || other.ops.has_other(unsafe { (*node).wait() }, |_| true) {
            return false;
        }
        let wakes = match kind {
            // SAFETY: the caller's promise.
            Kind::Op => unsafe { self.publish(&mut state, way, node) },
            Kind::Watch => {
                // SAFETY: the caller's promise.
                unsafe { own.watchers.push_back(node) };
                Wakes::new()
            }
        };
        drop(state);
        if !wakes.is_empty() {
            visit.outside(|| wakes.fire());
        }
        true
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was published with this kind.
    pub(crate) unsafe fn dequeue_send(&self, visit: &Inside, node: *const Node, kind: Kind) {
        // SAFETY: the caller's promise.
        unsafe { self.retract(visit, Way::Send, node, kind) };
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was published with this kind.
    pub(crate) unsafe fn dequeue_recv(&self, visit: &Inside, node: *const Node, kind: Kind) {
        // SAFETY: the caller's promise.
        unsafe { self.retract(visit, Way::Recv, node, kind) };
    }

    pub(crate) fn is_send_ready(&self) -> bool {
        self.is_met_by(Way::Recv)
    }

    pub(crate) fn is_recv_ready(&self) -> bool {
        self.is_met_by(Way::Send)
    }

    /// Whether an operation in this direction waits, or the channel is closed.
    fn is_met_by(&self, way: Way) -> bool {
        !self.glance.shows_nobody(way) && {
            let mut state = self.state.lock_from_user_code();
            self.glance.is_closed() || state.sides(way).0.ops.has_other(ptr::null(), |_| true)
        }
    }
}

/// The receiving end of a channel of capacity zero, as a [`Handle`]. A select that uses it need not check at
/// each call which kind of channel it has.
#[repr(transparent)]
pub(crate) struct RecvEnd<T>(Zero<T>);

impl<T> RecvEnd<T> {
    #[inline]
    pub(crate) fn of(zero: &Zero<T>) -> &RecvEnd<T> {
        // SAFETY: the struct is transparent, so the two types have the same layout.
        unsafe { &*ptr::from_ref(zero).cast() }
    }
}

impl<T> Handle for RecvEnd<T> {
    unsafe fn attempt(&self, slot: *mut u8) -> Outcome {
        // SAFETY: the caller's promise.
        unsafe { self.0.try_recv_to(slot.cast()) }
    }

    fn is_ready(&self) -> bool {
        self.0.is_recv_ready()
    }

    fn object(&self) -> Option<usize> {
        Some(self.0.address())
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    unsafe fn enqueue(&self, visit: &mut Inside, node: *const Node, kind: Kind) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.0.enqueue_recv(visit, node, kind) }
    }

    unsafe fn dequeue(&self, visit: &Inside, node: *const Node, kind: Kind) {
        // SAFETY: the caller's promise.
        unsafe { self.0.dequeue_recv(visit, node, kind) };
    }

    unsafe fn cancel(&self, outcome: Outcome, slot: *mut u8) {
        if outcome == Outcome::Done {
            // SAFETY: the caller's promise.
            unsafe { slot.cast::<T>().drop_in_place() };
        }
    }
}
