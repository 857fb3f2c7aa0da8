//! Unbounded channels in selects: reservations for sends whose message comes later, and waiting for several at once.
//! The invariants L1 to L4 are those of `list.rs`.

use crate::chan::list::List;
use crate::chan::waitq::{Kind, Node, Outcome, Wakes};
use crate::sched::visit::Inside;

impl<T> List<T> {
    /// Reserves a place: `Credit` or `Free`, `Disconnected`, or `Pending` if there is no room.
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

    /// Gives a reservation back.
    pub(crate) fn cancel_reserved(&self) {
        let mut wakes = Wakes::new();
        let mut tail = self.tail.lock.lock();
        tail.reserved -= 1;
        self.grant(&mut tail, &mut wakes);
        drop(tail);
        wakes.fire();
    }

    /// Queues a select's send, unless it is ready now: then the result is false.
    ///
    /// # Safety
    /// The node's owner keeps the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue_send(&self, _: &mut Inside, node: *mut Node, kind: Kind) -> bool {
        let mut tail = self.tail.lock.lock_inside();
        if self.is_closed() || self.has_room(&tail) {
            return false;
        }
        // SAFETY: the caller's.
        unsafe { tail.senders.queue(kind).push(node) };
        true
    }

    /// Queues a select's receive, unless it is ready now: then the result is false.
    ///
    /// # Safety
    /// The node's owner keeps the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue_recv(&self, _: &mut Inside, node: *mut Node, kind: Kind) -> bool {
        let mut tail = self.tail.lock.lock_inside();
        if self.is_recv_ready() {
            return false;
        }
        // SAFETY: the caller's.
        unsafe { tail.receivers.queue(kind).push(node) };
        true
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was published with this kind.
    pub(crate) unsafe fn dequeue_send(&self, _: &Inside, node: *mut Node, kind: Kind) {
        // SAFETY: the caller's.
        unsafe { self.tail.lock.lock_inside().senders.queue(kind).unlink(node) };
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was published with this kind.
    pub(crate) unsafe fn dequeue_recv(&self, _: &Inside, node: *mut Node, kind: Kind) {
        // SAFETY: the caller's.
        unsafe { self.tail.lock.lock_inside().receivers.queue(kind).unlink(node) };
    }

    pub(crate) fn is_send_ready(&self) -> bool {
        self.limit.is_none() || self.is_closed() || self.has_room(&self.tail.lock.lock())
    }
}
