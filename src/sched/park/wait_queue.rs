//! The queue that every blocking primitive waits in: a doubly linked list whose nodes lie on the stacks of
//! the waiters. Waiting allocates nothing. Channels and locks differ only in the data of their nodes.
//!
//! The owner of a node publishes it by pushing it into a queue under the queue's lock. From then on other
//! threads reach it through raw pointers, by these rules:
//!
//! - N1. `prev`, `next` and `linked` belong to the holder of the lock around the queue.
//! - N2. The owner does not leave its wait before the node is unlinked: either a waker claimed it (and will
//!   call `ready`), or the owner takes the lock again and unlinks it. So a linked node is always alive.
//! - N3. A waker that claimed a node ([`Claimed`]) is the only one to touch it until it calls `ready`, after
//!   which the node is gone. A claimed node is not linked. So a chain of claimed nodes may be walked after
//!   the lock was released.
//! - N4. The node of a wait that several parties may end points to its [`Wait`]. Unlinking such a node is not
//!   enough: the claimer must win the `Wait` as well. A node whose `Wait` another party has won is stale:
//!   claimers drop it from the queue, and its owner, which is about to unlink it, finds it unlinked.
//! - N5. A node that was unlinked and not claimed ([`Unlinked`]) is alive if its owner cannot give up: the
//!   owner is parked without a deadline, and only the thread that unlinked the node can reach it.
//! - N6. `ready` is never called under the lock: it may take locks of the scheduler.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::wait::{UNCLAIMED, Wait};
use crate::base::lock::{Rank, Ranked};
use crate::sched::types::waiter::Waiter;

/// One waiting operation. The fields before `data` have the same layout for every `T`, so that reports can
/// read them ([`is_queued`]).
#[repr(C)]
pub(crate) struct Node<T> {
    prev: Cell<*const Node<T>>,
    next: Cell<*const Node<T>>,
    linked: Cell<bool>,
    /// Null if only the claimer of the node can end the wait.
    wait: Cell<*const Wait>,
    waiter: Waiter,
    /// What the channel or lock has to know about the operation.
    pub(crate) data: T,
}

impl<T> Node<T> {
    /// A node for a wait of `waiter`. `wait` is null if only the claimer of this node can end the wait.
    #[inline]
    pub(crate) fn new(waiter: Waiter, wait: *const Wait, data: T) -> Node<T> {
        Node {
            prev: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            linked: Cell::new(false),
            wait: Cell::new(wait),
            waiter,
            data,
        }
    }

    /// Sets the wait of a node that is in no queue yet.
    pub(crate) fn set_wait(&self, wait: &Wait) {
        self.wait.set(wait);
    }

    /// The goroutine or thread that waits.
    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }

    /// The shared wait that the node belongs to, or null.
    pub(crate) fn wait(&self) -> *const Wait {
        self.wait.get()
    }

    /// Whether the node could be claimed now.
    ///
    /// # Safety
    /// The node is linked, and the lock around its queue is held; or nothing changes meanwhile.
    unsafe fn is_claimable(&self) -> bool {
        let wait = self.wait.get();
        // SAFETY: a linked node's Wait is alive (N2).
        wait.is_null() || unsafe { (*wait).claim() == UNCLAIMED }
    }

    /// Tries to win the wait, if others may end it (N4).
    ///
    /// # Safety
    /// The node is alive.
    unsafe fn try_claim(&self, claim: usize) -> bool {
        let wait = self.wait.get();
        // SAFETY: the caller's promise; the Wait lives as long as the node.
        wait.is_null() || unsafe { (*wait).try_claim(claim) }
    }
}

/// Whether the node at this address is in a queue, and nobody has claimed it.
///
/// # Safety
/// A `Node`, with data of any type, is alive there, and nothing changes meanwhile.
pub(crate) unsafe fn is_queued(node: usize) -> bool {
    // SAFETY: the caller's promise; the layout of the fields before `data` does not depend on `T`.
    let node = unsafe { &*(node as *const Node<()>) };
    // SAFETY: as above.
    node.linked.get() && unsafe { node.is_claimable() }
}

/// Nodes in the order of their arrival. It is one word, because every lock contains one: the `prev` of the
/// first node points to the last.
pub(crate) struct Queue<T> {
    first: *const Node<T>,
}

// SAFETY: the nodes are reached only under the lock that the queue is behind (N1, N2).
unsafe impl<T> Send for Queue<T> {}

impl<T> Ranked for Queue<T> {
    const RANK: Rank = Rank::Alone;
}

impl<T> Queue<T> {
    pub(crate) const fn new() -> Queue<T> {
        Queue { first: ptr::null() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// The first node. Its owner may have just given up.
    pub(crate) fn front(&self) -> Option<&Node<T>> {
        // SAFETY: linked, hence alive (N2), and ours while the lock is held (N1).
        unsafe { self.first.as_ref() }
    }

    /// Publishes a node as the last one.
    ///
    /// # Safety
    /// The node is not linked, and its owner keeps N2.
    #[inline]
    pub(crate) unsafe fn push_back(&mut self, node: *const Node<T>) {
        // SAFETY: the node is the caller's, and the first and the last are linked, hence alive (N2).
        unsafe {
            debug_assert!(!(*node).linked.get());
            (*node).next.set(ptr::null());
            (*node).linked.set(true);
            if self.first.is_null() {
                (*node).prev.set(node);
                self.first = node;
            } else {
                let last = (*self.first).prev.replace(node);
                (*node).prev.set(last);
                (*last).next.set(node);
            }
        }
    }

    /// Publishes a node as the first one.
    ///
    /// # Safety
    /// As [`push_back`](Queue::push_back).
    pub(crate) unsafe fn push_front(&mut self, node: *const Node<T>) {
        // SAFETY: as in `push_back`.
        unsafe {
            debug_assert!(!(*node).linked.get());
            (*node).next.set(self.first);
            (*node).linked.set(true);
            let last = if self.first.is_null() { node } else { (*self.first).prev.replace(node) };
            (*node).prev.set(last);
        }
        self.first = node;
    }

    /// Takes a node out. False: it was not in a queue any more.
    ///
    /// # Safety
    /// The node is alive and, if linked, then in this queue.
    #[inline]
    pub(crate) unsafe fn remove(&mut self, node: *const Node<T>) -> bool {
        // SAFETY: neighbours of a linked node are linked, hence alive (N2).
        unsafe {
            if !(*node).linked.replace(false) {
                return false;
            }
            let (prev, next) = ((*node).prev.get(), (*node).next.get());
            if ptr::eq(self.first, node) {
                self.first = next;
            } else {
                (*prev).next.set(next);
            }
            // The `prev` that pointed to the node: that of its successor, or, if it was the last, that of the
            // first.
            let keeper = if next.is_null() { self.first } else { next };
            if !keeper.is_null() {
                (*keeper).prev.set(prev);
            }
        }
        true
    }

    /// Takes the first node out and claims it. `None` if there is none, or if its owner had just given up.
    pub(crate) fn claim_front(&mut self, claim: usize) -> Option<Claimed<T>> {
        let node = NonNull::new(self.first.cast_mut())?;
        // SAFETY: linked, hence alive (N2); an owner that gave up still has to take our lock before it
        // leaves.
        unsafe {
            self.remove(node.as_ptr());
            node.as_ref().try_claim(claim).then_some(Claimed(node))
        }
    }

    /// Takes out the first node that can be claimed; stale nodes before it are dropped from the queue.
    pub(crate) fn pop(&mut self, claim: usize) -> Option<Claimed<T>> {
        while !self.is_empty() {
            if let Some(claimed) = self.claim_front(claim) {
                return Some(claimed);
            }
        }
        None
    }

    /// As [`pop`](Queue::pop), among the nodes that `accept` accepts; `claim` computes the claim value from
    /// the node's data.
    #[inline]
    pub(crate) fn pop_if(
        &mut self,
        accept: impl Fn(&Node<T>) -> bool,
        claim: impl Fn(&T) -> usize,
    ) -> Option<Claimed<T>> {
        let mut cursor = self.first;
        while let Some(node) = NonNull::new(cursor.cast_mut()) {
            // SAFETY: linked, hence alive (N2), and ours while the lock is held (N1).
            unsafe {
                let this = node.as_ref();
                cursor = this.next.get();
                if !accept(this) {
                    continue;
                }
                let won = this.try_claim(claim(&this.data));
                self.remove(node.as_ptr());
                if won {
                    return Some(Claimed(node));
                }
            }
        }
        None
    }

    /// The first node that could be claimed and that `accept` accepts.
    #[cfg(feature = "transparent")]
    pub(crate) fn find(&self, accept: impl Fn(&Node<T>) -> bool) -> Option<*const Node<T>> {
        // SAFETY: as in `has_claimable`.
        self.nodes().find(|node| accept(node) && unsafe { node.is_claimable() }).map(ptr::from_ref)
    }

    /// Takes the first node out without claiming it, to move it to another queue.
    ///
    /// # Safety
    /// Its owner cannot give up (N5).
    pub(crate) unsafe fn unlink_front(&mut self) -> Option<Unlinked<T>> {
        let node = NonNull::new(self.first.cast_mut())?;
        // SAFETY: linked, hence alive (N2).
        unsafe { self.remove(node.as_ptr()) };
        Some(Unlinked(node))
    }

    /// Adds a node that came from another queue as the last one.
    pub(crate) fn push_unlinked(&mut self, unlinked: Unlinked<T>) {
        // SAFETY: alive (N5), and its owner stays parked until a waker claims it from here.
        unsafe { self.push_back(unlinked.0.as_ptr()) };
    }

    /// Takes all nodes out; the result holds those that could be claimed, in their order.
    pub(crate) fn take_all(&mut self, claim: usize) -> ClaimedList<T> {
        let mut list = ClaimedList::new();
        while let Some(claimed) = self.pop(claim) {
            list.push(claimed);
        }
        list
    }

    /// Whether a node could be claimed that `accept` accepts.
    pub(crate) fn has_claimable(&self, accept: impl Fn(&Node<T>) -> bool) -> bool {
        // SAFETY: linked, hence its Wait is alive, and the lock is held.
        self.nodes().any(|node| accept(node) && unsafe { node.is_claimable() })
    }

    /// The number of nodes that could be claimed.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        // SAFETY: as in `has_claimable`.
        self.nodes().filter(|node| unsafe { node.is_claimable() }).count()
    }

    fn nodes(&self) -> impl Iterator<Item = &Node<T>> {
        // SAFETY: linked, hence alive (N2), and ours while the lock is held (N1).
        std::iter::successors(self.front(), |node| unsafe { node.next.get().as_ref() })
    }
}

/// A node whose wait is over; its owner is still parked, waiting for `ready` (N3).
#[must_use = "a claimed waiter that is never readied sleeps forever"]
pub(crate) struct Claimed<T>(NonNull<Node<T>>);

impl<T> Claimed<T> {
    /// The node, which belongs to the caller until [`ready`](Claimed::ready).
    #[inline]
    pub(crate) fn node(&self) -> &Node<T> {
        // SAFETY: N3.
        unsafe { self.0.as_ref() }
    }

    /// Lets the waiter run. Call it after the queue's lock was released.
    #[inline]
    pub(crate) fn ready(self) {
        self.into_waiter().ready();
    }

    /// The waiter, on which the caller must call `ready`. The caller is done with the node.
    #[inline]
    pub(crate) fn into_waiter(self) -> Waiter {
        // SAFETY: N3. Nothing touches the node after the waiter is readied.
        unsafe { self.0.as_ref() }.waiter
    }

    /// A claimed node as an address, to be handed on.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<Node<T>> {
        self.0
    }

    /// # Safety
    /// The node came from [`into_raw`](Claimed::into_raw), or it is in no queue and the caller was given the
    /// duty to finish its wait.
    #[inline]
    pub(crate) unsafe fn from_raw(node: NonNull<Node<T>>) -> Claimed<T> {
        Claimed(node)
    }
}

/// A waiter between two queues (N5).
#[must_use = "an unlinked waiter that is forgotten sleeps forever"]
pub(crate) struct Unlinked<T>(NonNull<Node<T>>);

impl<T> Unlinked<T> {
    /// Ends its wait.
    pub(crate) fn claim(self, claim: usize) -> Claimed<T> {
        // SAFETY: alive (N5).
        let claimed = unsafe { self.0.as_ref().try_claim(claim) };
        debug_assert!(claimed, "nobody else can have ended its wait");
        Claimed(self.0)
    }
}

/// Claimed nodes in the order of their arrival, to be readied after the lock is released. They are linked
/// through their `next`, which belongs to the claimer (N3).
#[must_use = "claimed waiters that are never readied sleep forever"]
pub(crate) struct ClaimedList<T> {
    first: *const Node<T>,
    last: *const Node<T>,
    len: usize,
}

impl<T> ClaimedList<T> {
    pub(crate) const fn new() -> ClaimedList<T> {
        ClaimedList { first: ptr::null(), last: ptr::null(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Adds one at the end.
    #[inline]
    pub(crate) fn push(&mut self, claimed: Claimed<T>) {
        let node: *const Node<T> = claimed.0.as_ptr();
        // SAFETY: N3, for this node and for the last one.
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
    pub(crate) fn append(&mut self, others: ClaimedList<T>) {
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
    #[inline]
    pub(crate) fn ready_all(self) {
        self.for_each(Waiter::ready);
    }

    /// Hands all waiters to `wake`, which must call `ready` on them, or what is its equal. Call it after the
    /// queue's lock was released.
    #[inline]
    pub(crate) fn for_each(self, wake: impl Fn(Waiter)) {
        let mut node = self.first;
        while !node.is_null() {
            // SAFETY: N3 holds until `ready`, so everything is read before that.
            let waiter = unsafe {
                let this = &*node;
                node = this.next.get();
                this.waiter
            };
            wake(waiter);
        }
    }
}

impl<T> From<Option<Claimed<T>>> for ClaimedList<T> {
    fn from(claimed: Option<Claimed<T>>) -> ClaimedList<T> {
        let mut list = ClaimedList::new();
        if let Some(claimed) = claimed {
            list.push(claimed);
        }
        list
    }
}
