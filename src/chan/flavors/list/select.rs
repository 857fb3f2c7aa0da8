//! The part that lists (unbounded channels, or bounded ones of huge capacity) play in selects: reservations
//! for sends whose message comes later, and queuing for a select that waits at several channels. The
//! invariants L1 to L4 are those of `list.rs`.

use crate::chan::flavors::list::List;
use crate::chan::waitq::{Kind, Node, Outcome, Wakes};
use crate::sched::park::channel_op::Inside;

impl<T> List<T> {
    /// Reserves a place for a send. The outcome is `Credit` (or `Free` in an unbounded channel, which needs
    /// no reservation), `Disconnected`, or `Pending` if there is no room.
    pub(crate) fn try_reserve(&self) -> Outcome {
        if self.limit.is_none() {
            return if self.is_closed() { Outcome::Disconnected } else { Outcome::Free };
        }
        let mut tail = self.tail.lock.lock();
        if self.is_closed() {
            Outcome::Disconnected
        } else if self.has_room(&tail) {
            tail.reserved += 1;
            Outcome::Credit
        } else {
            Outcome::Pending
        }
    }

    /// Gives a reservation back: its place goes to a waiting sender, if there is one.
    pub(crate) fn cancel_reserved(&self) {
        let mut wakes = Wakes::new();
        let mut tail = self.tail.lock.lock();
        tail.reserved -= 1;
        self.grant(&mut tail, &mut wakes);
        drop(tail);
        wakes.fire();
    }

    /// Queues a select's send. Returns false, and does not queue it, if it is ready now.
    ///
    /// # Safety
    /// The node's owner follows the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue_send(&self, _: &mut Inside, node: *const Node, kind: Kind) -> bool {
        let mut tail = self.tail.lock.lock_inside();
        if self.is_closed() || self.has_room(&tail) {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe { tail.senders.queue(kind).push_back(node) };
        true
    }

    /// Queues a select's receive. Returns false, and does not queue it, if it is ready now.
    ///
    /// # Safety
    /// The node's owner follows the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue_recv(&self, _: &mut Inside, node: *const Node, kind: Kind) -> bool {
        let mut tail = self.tail.lock.lock_inside();
        if self.is_recv_ready() {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe { tail.receivers.queue(kind).push_back(node) };
        true
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was published with this kind.
    pub(crate) unsafe fn dequeue_send(&self, _: &Inside, node: *const Node, kind: Kind) {
        // SAFETY: the caller's promise.
        unsafe { self.tail.lock.lock_inside().senders.queue(kind).remove(node) };
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was published with this kind.
    pub(crate) unsafe fn dequeue_recv(&self, _: &Inside, node: *const Node, kind: Kind) {
        // SAFETY: the caller's promise.
        unsafe { self.tail.lock.lock_inside().receivers.queue(kind).remove(node) };
    }

    pub(crate) fn is_send_ready(&self) -> bool {
        self.limit.is_none() || self.is_closed() || self.has_room(&self.tail.lock.lock())
    }
}
