//! The queue that every blocking primitive of this module waits in: a circular, doubly linked list whose
//! nodes lie on the stacks of the waiters. Waiting allocates nothing.
//!
//! Who owns what:
//! - A `Node` belongs to the waiter that made it. While it is linked, its links belong to whoever holds the
//!   lock around the `Queue`.
//! - Leaving the queue: either a waker unlinks the node and claims its wait (then it has a [`Claimed`] and
//!   must call `ready`), or the waiter claims it itself (its deadline passed) and then unlinks its node. A
//!   waker that unlinks a node and fails to claim it forgets the node; its owner finds it unlinked.
//!
//! Invariants:
//! 1. A linked node is alive: its owner does not return before it was claimed by a waker and readied, or has
//!    unlinked the node itself under the lock.
//! 2. A node whose wait a waker has claimed stays alive until that waker calls `ready`: the owner stays
//!    parked until then. So a chain of claimed nodes may be walked after the lock was released.
//! 3. `ready` is never called under the lock: it may take locks of the scheduler.
//! 4. A node that was unlinked and not claimed ([`Unlinked`]) is alive if its owner cannot give up: it is
//!    parked without a deadline, and nobody but who unlinked it knows it.

use std::cell::Cell;
use std::ptr;
use std::time::Instant;

use crate::context::ambient;
use crate::sched::reason::WaitReason;
use crate::sched::waiter::{FIRST_FREE_CLAIM, Place, UNCLAIMED, Wait};

/// A waker's claim: the waiter has got what it asked for.
pub(super) const GRANTED: usize = FIRST_FREE_CLAIM;
/// A waker's claim: the waiter should look again, and has not got anything.
pub(super) const RETRY: usize = FIRST_FREE_CLAIM + 1;
/// A claim for waiters that may be moved from one queue to another: the first one has let them go.
pub(super) const NOTIFIED: usize = FIRST_FREE_CLAIM + 2;

/// One waiter in a queue.
pub(crate) struct Node {
    pub(super) wait: Wait,
    /// Null while the node is in no queue.
    next: Cell<*const Node>,
    prev: Cell<*const Node>,
    /// What the waiter asks for; the meaning is the primitive's.
    tag: usize,
}

impl Node {
    /// A wait of the caller, in no queue yet.
    pub(super) fn new(tag: usize) -> Node {
        Node { wait: Wait::new(), next: Cell::new(ptr::null()), prev: Cell::new(ptr::null()), tag }
    }

    /// Parks until the wait is claimed, by a waker or by the deadline. Returns the claim: `GRANTED`, `RETRY`,
    /// or another one, which means that the wait was given up and that the caller must take the queue's lock
    /// and `remove` the node.
    pub(super) fn park(&self, reason: WaitReason, object: usize, deadline: Option<Instant>) -> usize {
        let place = Place { object, node: ptr::from_ref(self) as usize };
        let claim = ambient::park_until(&self.wait, reason, place.address(), deadline);
        debug_assert_ne!(claim, UNCLAIMED);
        claim
    }

    /// What the waiter asks for.
    pub(super) fn tag(&self) -> usize {
        self.tag
    }

    /// Whether it is in a queue, and nobody has claimed it.
    pub(crate) fn waits(&self) -> bool {
        self.is_linked() && self.wait.claim() == UNCLAIMED
    }

    fn is_linked(&self) -> bool {
        !self.next.get().is_null()
    }
}

/// The waiters of one primitive, first come first. Lives under a runtime lock.
pub(super) struct Queue {
    /// The first node, or null. Its `prev` is the last one.
    head: *const Node,
}

// SAFETY: the nodes are reached only under the lock around the queue (invariant 1).
unsafe impl Send for Queue {}

impl Queue {
    /// An empty queue.
    pub(super) const fn new() -> Queue {
        Queue { head: ptr::null() }
    }

    /// Whether nobody waits here.
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// The tag of the first waiter. It may be one that has just given up.
    pub(super) fn front_tag(&self) -> Option<usize> {
        // SAFETY: a linked node is alive (1).
        (!self.head.is_null()).then(|| unsafe { (*self.head).tag })
    }

    /// Adds a waiter as the last one.
    ///
    /// # Safety
    /// The node is in no queue, and invariant 1 is the caller's promise: it will not go away before it was
    /// claimed by a waker and readied, or `remove`d.
    pub(super) unsafe fn push_back(&mut self, node: &Node) {
        debug_assert!(!node.is_linked());
        let this: *const Node = node;
        if self.head.is_null() {
            node.next.set(this);
            node.prev.set(this);
            self.head = this;
            return;
        }
        // SAFETY: linked nodes are alive (1), and the links are ours under the lock.
        unsafe {
            let last = (*self.head).prev.get();
            node.next.set(self.head);
            node.prev.set(last);
            (*last).next.set(this);
            (*self.head).prev.set(this);
        }
    }

    /// Adds a waiter as the first one.
    ///
    /// # Safety
    /// As `push_back`.
    pub(super) unsafe fn push_front(&mut self, node: &Node) {
        // SAFETY: the caller's promise. In a circle the place before the first is the place after the last.
        unsafe { self.push_back(node) };
        self.head = node;
    }

    /// Unlinks a node of this queue if it is still linked. Tells whether it was.
    pub(super) fn remove(&mut self, node: &Node) -> bool {
        if !node.is_linked() {
            return false;
        }
        let (next, prev) = (node.next.get(), node.prev.get());
        if ptr::eq(next, node) {
            self.head = ptr::null();
        } else {
            // SAFETY: its neighbours are linked, hence alive (1).
            unsafe {
                (*prev).next.set(next);
                (*next).prev.set(prev);
            }
            if ptr::eq(self.head, node) {
                self.head = next;
            }
        }
        node.next.set(ptr::null());
        node.prev.set(ptr::null());
        true
    }

    /// Unlinks the first node and claims its wait. `None` if there is none, or if that one had just given up.
    pub(super) fn claim_front(&mut self, claim: usize) -> Option<Claimed> {
        // SAFETY: a linked node is alive (1); one that gave up still has to take our lock before it goes.
        let node = unsafe { self.head.as_ref()? };
        self.remove(node);
        node.wait.try_claim(claim).then_some(Claimed { node })
    }

    /// Unlinks the first node without claiming its wait, to move it to another queue.
    ///
    /// # Safety
    /// Its owner cannot give up (4).
    pub(super) unsafe fn unlink_front(&mut self) -> Option<Unlinked> {
        // SAFETY: a linked node is alive (1).
        let node = unsafe { self.head.as_ref()? };
        self.remove(node);
        Some(Unlinked { node })
    }

    /// Adds a waiter that came from another queue as the last one.
    pub(super) fn push_unlinked(&mut self, unlinked: Unlinked) {
        // SAFETY: alive (4), and its owner stays parked until somebody claims it from here.
        unsafe { self.push_back(&*unlinked.node) };
    }

    /// Unlinks nodes from the front until one could be claimed.
    pub(super) fn pop(&mut self, claim: usize) -> Option<Claimed> {
        while !self.is_empty() {
            if let Some(claimed) = self.claim_front(claim) {
                return Some(claimed);
            }
        }
        None
    }

    /// Unlinks all nodes; the result holds those that could be claimed, in their order.
    pub(super) fn take_all(&mut self, claim: usize) -> ClaimedList {
        let mut list = ClaimedList::new();
        while let Some(claimed) = self.pop(claim) {
            list.push(claimed);
        }
        list
    }

    /// How many nodes are linked.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let mut count = 0;
        let mut node = self.head;
        while !node.is_null() {
            count += 1;
            // SAFETY: a linked node is alive (1).
            node = unsafe { (*node).next.get() };
            if ptr::eq(node, self.head) {
                break;
            }
        }
        count
    }
}

/// A waiter whose wait is over; it is still parked, waiting for `ready`.
#[must_use = "a claimed waiter that is never readied sleeps for ever"]
pub(super) struct Claimed {
    pub(super) node: *const Node,
}

impl Claimed {
    /// Lets the waiter run. Call it after the queue's lock was released.
    pub(super) fn ready(self) {
        // SAFETY: alive until `ready` (2). The waiter is copied out first; nothing touches the node after.
        let waiter = unsafe { (*self.node).wait.waiter() };
        waiter.ready();
    }
}

/// A waiter between two queues.
#[must_use = "an unlinked waiter that is forgotten sleeps for ever"]
pub(super) struct Unlinked {
    node: *const Node,
}

impl Unlinked {
    /// Ends its wait here.
    pub(super) fn claim(self, claim: usize) -> Claimed {
        // SAFETY: alive (4).
        let claimed = unsafe { (*self.node).wait.try_claim(claim) };
        debug_assert!(claimed, "nobody else can have ended its wait");
        Claimed { node: self.node }
    }
}

/// Waiters whose waits are over, in the order in which they came.
#[must_use = "claimed waiters that are never readied sleep for ever"]
pub(super) struct ClaimedList {
    first: *const Node,
    last: *const Node,
    len: usize,
}

impl ClaimedList {
    /// An empty list.
    pub(super) const fn new() -> ClaimedList {
        ClaimedList { first: ptr::null(), last: ptr::null(), len: 0 }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds one at the end.
    pub(super) fn push(&mut self, claimed: Claimed) {
        let node = claimed.node;
        // SAFETY: claimed nodes are alive until readied (2), and unlinked: their links are the claimer's.
        unsafe {
            (*node).next.set(ptr::null());
            if self.first.is_null() {
                self.first = node;
            } else {
                (*self.last).next.set(node);
            }
        }
        self.last = node;
        self.len += 1;
    }

    /// Adds all of `others` at the end.
    pub(super) fn append(&mut self, others: ClaimedList) {
        if others.first.is_null() {
            return;
        }
        if self.first.is_null() {
            *self = others;
            return;
        }
        // SAFETY: as in `push`.
        unsafe { (*self.last).next.set(others.first) };
        self.last = others.last;
        self.len += others.len;
    }

    /// Lets all of them run. Call it after the queue's lock was released.
    pub(super) fn ready_all(self) {
        let mut node = self.first;
        while !node.is_null() {
            // SAFETY: alive until its own `ready` (2), so the link is read first.
            let next = unsafe { (*node).next.get() };
            Claimed { node }.ready();
            node = next;
        }
    }
}

impl From<Option<Claimed>> for ClaimedList {
    fn from(claimed: Option<Claimed>) -> ClaimedList {
        let mut list = ClaimedList::new();
        if let Some(claimed) = claimed {
            list.push(claimed);
        }
        list
    }
}
