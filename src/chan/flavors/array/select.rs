//! The part that bounded channels play in selects: reservations for sends whose message comes later, and
//! queuing for a select that waits at several channels. The invariants A1 to A4 are those of `array.rs`.

use std::ptr;

use crate::chan::flavors::array::ring::{CLOSED, HELD, WAITING};
use crate::chan::flavors::array::{Array, State};
use crate::chan::flavors::relax::Relax;
use crate::chan::waitq::{Kind, Node, Outcome, Wakes};
use crate::sched::park::channel_op::Inside;

impl<T> Array<T> {
    /// Reserves a place for a send. The outcome is `Credit`, `Disconnected`, or `Pending` if there is no
    /// room.
    pub(crate) fn try_reserve(&self) -> Outcome {
        let mut state = self.state.lock();
        let tail = self.ring.flag_tail(HELD);
        if !tail.has(CLOSED) && self.has_room(&state) {
            state.reserved += 1;
            return Outcome::Credit;
        }
        self.settle_hold(&state);
        if tail.has(CLOSED) { Outcome::Disconnected } else { Outcome::Pending }
    }

    /// Clears `HELD` in `tail` if nothing is reserved any more.
    fn settle_hold(&self, state: &State) {
        if state.reserved == 0 && self.ring.tail().has(HELD) {
            self.ring.unflag_tail(HELD);
        }
    }

    /// Sends a message into a reserved place. The outcome is `Done`, or `Disconnected` if the channel was
    /// closed meanwhile; then the message still belongs to the caller.
    pub(crate) fn send_reserved(&self, msg: *const T) -> Outcome {
        let mut relax = Relax::new();
        loop {
            let mut state = self.state.lock();
            let tail = self.ring.tail();
            if tail.has(CLOSED) {
                state.reserved -= 1;
                self.settle_hold(&state);
                return Outcome::Disconnected;
            }
            if tail.has(WAITING)
                && let Some(wakes) = self.hand_over(&mut state, msg)
            {
                drop(state);
                wakes.fire();
                // A receiver took the message directly, so the reserved place was not needed.
                self.cancel_reserved();
                return Outcome::Done;
            }
            if self.ring.back_is_free() {
                // SAFETY: the slot at the tail is free, and `tail` carries `HELD` (A3).
                unsafe { self.push_certainly(msg) };
                state.reserved -= 1;
                let wakes = self.filled(&mut state);
                self.settle_hold(&state);
                drop(state);
                wakes.fire();
                return Outcome::Done;
            }
            drop(state);
            relax.relax();
        }
    }

    /// Gives a reservation back: its place goes to a waiting sender, if there is one.
    pub(crate) fn cancel_reserved(&self) {
        let mut relax = Relax::new();
        loop {
            let mut state = self.state.lock();
            if self.ring.tail().has(CLOSED) || state.senders.ops.is_empty() {
                state.reserved -= 1;
                let mut wakes = Wakes::new();
                state.senders.watchers.claim_all(Outcome::Done, &mut wakes);
                self.settle_head_flag(&state);
                self.settle_hold(&state);
                drop(state);
                wakes.fire();
                return;
            }
            if !self.ring.back_is_free() {
                drop(state);
                relax.relax();
                continue;
            }
            if let Some(node) = state.senders.ops.claim() {
                let mut wakes = Wakes::new();
                // SAFETY: the node is claimed, and its slot, if it has one, holds a message of our type. The
                // slot at the tail is free, and `tail` carries `HELD`.
                unsafe {
                    let slot = (*node.as_ptr()).slot().cast::<T>();
                    if slot.is_null() {
                        // The sender is a select: the reservation passes to it.
                        wakes.add(node, Outcome::Credit);
                    } else {
                        self.push_certainly(slot);
                        state.reserved -= 1;
                        wakes.add(node, Outcome::Done);
                    }
                }
                self.settle_head_flag(&state);
                self.settle_hold(&state);
                drop(state);
                wakes.fire();
                return;
            }
        }
    }

    /// Queues a select's send. Returns false, and does not queue it, if it is ready now.
    ///
    /// # Safety
    /// The node's owner follows the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue_send(&self, _: &mut Inside, node: *const Node, kind: Kind) -> bool {
        let state = self.state.lock_inside();
        if self.ring.tail().has(CLOSED) || !self.stop_receivers(&state) {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe { self.publish(state, node, |s| &mut s.senders, kind) };
        true
    }

    /// Queues a select's receive. Returns false, and does not queue it, if it is ready now.
    ///
    /// # Safety
    /// The node's owner follows the rules of `waitq.rs`.
    pub(crate) unsafe fn enqueue_recv(&self, _: &mut Inside, node: *const Node, kind: Kind) -> bool {
        let state = self.state.lock_inside();
        // SAFETY: the node belongs to the caller, and is not published yet.
        let own = unsafe { (*node).wait() };
        // If all the capacity is reserved, senders can wait at an empty ring.
        if state.senders.ops.has_other(own, Node::has_slot) || !self.stop_senders(&state) {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe { self.publish(state, node, |s| &mut s.receivers, kind) };
        true
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was published with this kind.
    pub(crate) unsafe fn dequeue_send(&self, _: &Inside, node: *const Node, kind: Kind) {
        // SAFETY: the caller's promise.
        unsafe { self.retract(node, |s| &mut s.senders, kind) };
    }

    /// Takes a node of a select out of its queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was published with this kind.
    pub(crate) unsafe fn dequeue_recv(&self, _: &Inside, node: *const Node, kind: Kind) {
        // SAFETY: the caller's promise.
        unsafe { self.retract(node, |s| &mut s.receivers, kind) };
    }

    pub(crate) fn is_send_ready(&self) -> bool {
        let tail = self.ring.tail();
        if tail.has(HELD) && !tail.has(CLOSED) {
            let state = self.state.lock();
            return self.has_room(&state);
        }
        self.ring.len() < self.ring.capacity() || self.ring.is_closed()
    }

    pub(crate) fn is_recv_ready(&self) -> bool {
        self.ring.len() != 0
            || self.ring.is_closed()
            || self.ring.head().has(WAITING) && {
                let state = self.state.lock();
                state.senders.ops.has_other(ptr::null(), Node::has_slot)
            }
    }
}
