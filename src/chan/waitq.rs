//! Who waits at a channel: intrusive queues of [`Node`]s that lie on the stacks of those who wait.
//!
//! A Node is published by pushing it into a queue under the channel's lock. From then on it is reached
//! through raw pointers only, by these rules:
//!
//! - N1. `prev`, `next` and `linked` belong to the lock of the queue's channel.
//! - N2. The owner does not leave its wait before the node is unlinked: either somebody claimed it (and will
//!   call `ready`), or the owner takes the lock again and unlinks it. So a linked node is always alive.
//! - N3. Whoever takes a node with [`Queue::claim`] is the only one to touch it, its slot and its outcome
//!   until the `ready` of its waiter, after which the node is gone. A claimed node is not linked; except that of a
//!   disconnected channel a whole queue of waits that nobody else can end is claimed at once, and each node is told when
//!   it is woken.
//! - N4. Nodes of a wait that several may end carry its [`Wait`]; unlinking such a node is not enough, the
//!   claimer must win the `Wait` as well. A node whose `Wait` was won by another is stale: claimers drop it
//!   from the queue, its owner is about to look for it there.
//!
//! Wake-ups happen after the lock is released: claimed nodes are chained into a [`Wakes`] through their
//! `next` fields, which N3 makes ours.

use std::mem;
use std::ptr::{self, NonNull};
use std::time::Instant;

use crate::context::ambient;
use crate::sched::reason::WaitReason;
use crate::sched::visit::{Stepwise, Visit};
use crate::sched::waiter::{FIRST_FREE_CLAIM, Place, TIMED_OUT, UNCLAIMED, Wait, Waiter, park};
use crate::time::clock;

/// What became of an operation that waited, or of a case of a select that was tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Nothing yet.
    Pending,
    /// The message moved into the slot of the receiver, or out of that of the sender.
    Done,
    /// The channel is disconnected; the message, if any, is still where it was.
    Disconnected,
    /// A send may be completed at any time: its place in the channel is reserved.
    Credit,
    /// A send may be completed at any time, nothing needs to be reserved for it.
    Free,
    /// A send is to be completed by filling the slot of this receiver, who waits for it.
    Peer(NonNull<Node>),
    /// The other side withdrew; try again.
    Retry,
}

/// One waiting operation. See the head of this file.
pub(crate) struct Node {
    prev: *mut Node,
    next: *mut Node,
    linked: bool,
    /// When it came, it had a [`Wait`], or another one in the queue had.
    mixed: bool,
    /// Null if nobody but the taker of the node can end the wait.
    wait: *const Wait,
    waiter: Waiter,
    claim: usize,
    /// Where the message is to be written to or read from. Null for a select's send (its message does not
    /// exist before it is selected) and for those who only want to know that a channel is ready.
    pub(crate) slot: *mut u8,
    pub(crate) outcome: Outcome,
}

impl Node {
    /// For a wait that only a claimer of this node can end.
    pub(crate) fn plain(waiter: Waiter, slot: *mut u8) -> Node {
        Node::with(ptr::null(), waiter, 0, slot)
    }

    /// For a wait that others can end too. The claimer claims `wait` with `claim`.
    pub(crate) fn shared(wait: &Wait, claim: usize, slot: *mut u8) -> Node {
        Node::with(wait, wait.waiter(), claim, slot)
    }

    /// As [`shared`](Node::shared), for a wait whose waiter is known otherwise.
    pub(crate) fn with(wait: *const Wait, waiter: Waiter, claim: usize, slot: *mut u8) -> Node {
        Node {
            prev: ptr::null_mut(),
            next: ptr::null_mut(),
            linked: false,
            mixed: false,
            wait,
            waiter,
            claim,
            slot,
            outcome: Outcome::Pending,
        }
    }

    /// Is there a place for the message?
    pub(crate) fn has_slot(&self) -> bool {
        !self.slot.is_null()
    }

    /// The shared wait that the node belongs to, or null.
    pub(crate) fn wait(&self) -> *const Wait {
        self.wait
    }

    /// Is the node in a queue, and nobody has claimed it?
    ///
    /// # Safety
    /// The node is alive, and nobody changes it meanwhile.
    pub(crate) unsafe fn waits(&self) -> bool {
        // SAFETY: a linked node's Wait is alive (N2).
        self.linked && unsafe { self.is_claimable() }
    }

    /// Could the node be claimed now?
    ///
    /// # Safety
    /// The node is linked and its queue's lock is held.
    unsafe fn is_claimable(&self) -> bool {
        // SAFETY: a linked node's Wait is alive (N2).
        self.wait.is_null() || unsafe { (*self.wait).claim() == UNCLAIMED }
    }
}

/// Ends the wait of a claimed node: writes the outcome. The caller calls `ready` on the result, after it
/// has released the lock and has done all it wants with the node.
///
/// # Safety
/// The caller has claimed the node and not yet finished it.
#[inline]
#[must_use]
pub(crate) unsafe fn finish(node: NonNull<Node>, outcome: Outcome) -> Waiter {
    // SAFETY: N3.
    unsafe {
        (*node.as_ptr()).outcome = outcome;
        (*node.as_ptr()).waiter
    }
}

/// What a goroutine waits for if others than the handles of a channel can end the wait: a timer, a select.
pub(crate) const ELSEWHERE: usize = 1;

/// Nodes in the order of their arrival.
pub(crate) struct Queue {
    first: *mut Node,
    last: *mut Node,
}

// SAFETY: the nodes are reached only under the lock that the queue is behind (N1, N2).
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) const fn new() -> Queue {
        Queue { first: ptr::null_mut(), last: ptr::null_mut() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Whether nobody else can end the waits of its nodes.
    fn is_plain(&self) -> bool {
        // SAFETY: linked, hence alive (N2), and ours while the lock is held (N1).
        !self.last.is_null() && unsafe { !(*self.last).mixed }
    }

    /// Publishes a node.
    ///
    /// # Safety
    /// The node is not linked, and its owner keeps N2.
    #[inline]
    pub(crate) unsafe fn push(&mut self, node: *mut Node) {
        // SAFETY: the node is the caller's, and the last one is linked, hence alive (N2).
        unsafe {
            (*node).prev = self.last;
            (*node).next = ptr::null_mut();
            (*node).linked = true;
            (*node).mixed = !(*node).wait.is_null() || (!self.last.is_null() && (*self.last).mixed);
            if self.last.is_null() {
                self.first = node;
            } else {
                (*self.last).next = node;
            }
        }
        self.last = node;
    }

    /// Takes a node out, if it is in.
    ///
    /// # Safety
    /// The node is alive and, if linked, then in this queue.
    #[inline]
    pub(crate) unsafe fn unlink(&mut self, node: *mut Node) {
        // SAFETY: neighbours of a linked node are linked, hence alive (N2).
        unsafe {
            if !(*node).linked {
                return;
            }
            (*node).linked = false;
            let (prev, next) = ((*node).prev, (*node).next);
            if prev.is_null() {
                self.first = next;
            } else {
                (*prev).next = next;
            }
            if next.is_null() {
                self.last = prev;
            } else {
                (*next).prev = prev;
            }
        }
    }

    /// Takes the first node that can still be woken; stale ones before it are dropped from the queue.
    #[inline]
    pub(crate) fn claim(&mut self) -> Option<NonNull<Node>> {
        self.claim_if(|_| true)
    }

    /// As [`claim`](Queue::claim), for nodes with a slot only.
    pub(crate) fn claim_with_slot(&mut self) -> Option<NonNull<Node>> {
        self.claim_if(Node::has_slot)
    }

    #[inline]
    fn claim_if(&mut self, accept: impl Fn(&Node) -> bool) -> Option<NonNull<Node>> {
        let mut cursor = self.first;
        while let Some(node) = NonNull::new(cursor) {
            // SAFETY: linked, hence alive (N2), and ours while the lock is held (N1).
            unsafe {
                let this = &*node.as_ptr();
                cursor = this.next;
                if !accept(this) {
                    continue;
                }
                let won = this.wait.is_null() || (*this.wait).try_claim(this.claim);
                self.unlink(node.as_ptr());
                if won {
                    return Some(node);
                }
            }
        }
        None
    }

    /// Is there a node that could be claimed, does not belong to `own` and satisfies `accept`?
    pub(crate) fn has_claimable(&self, own: *const Wait, accept: impl Fn(&Node) -> bool) -> bool {
        let mut cursor = self.first;
        while !cursor.is_null() {
            // SAFETY: linked, hence alive (N2), and ours while the lock is held (N1).
            unsafe {
                let this = &*cursor;
                if (own.is_null() || this.wait != own) && accept(this) && this.is_claimable() {
                    return true;
                }
                cursor = this.next;
            }
        }
        false
    }

    /// Nodes that could be claimed.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let mut cursor = self.first;
        let mut count = 0;
        while !cursor.is_null() {
            // SAFETY: linked, hence alive (N2), and ours while the lock is held (N1).
            unsafe {
                count += usize::from((*cursor).is_claimable());
                cursor = (*cursor).next;
            }
        }
        count
    }

    /// Claims all that can be claimed, with `outcome`, for waking; the queue is empty afterwards.
    #[inline]
    pub(crate) fn claim_all(&mut self, outcome: Outcome, wakes: &mut Wakes) {
        while let Some(node) = self.claim() {
            // SAFETY: just claimed.
            unsafe { wakes.add(node, outcome) };
        }
    }
}

/// Those who wait at one side of a channel.
pub(crate) struct Side {
    /// Operations: the first of them is served next.
    pub(crate) ops: Queue,
    /// Those who only want to know that an operation became possible: all are told.
    pub(crate) watchers: Queue,
}

impl Side {
    pub(crate) const fn new() -> Side {
        Side { ops: Queue::new(), watchers: Queue::new() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.watchers.is_empty()
    }

    /// The queue for nodes of this kind.
    pub(crate) fn queue(&mut self, kind: Kind) -> &mut Queue {
        match kind {
            Kind::Op => &mut self.ops,
            Kind::Watch => &mut self.watchers,
        }
    }

    /// Everybody waits in vain: the channel is disconnected.
    pub(crate) fn disconnect(&mut self, wakes: &mut Wakes) {
        if self.ops.is_plain() && wakes.crowd.is_empty() {
            // There may be a million, and they are cold: they are touched only once, when they are woken.
            wakes.crowd = mem::replace(&mut self.ops, Queue::new());
        }
        self.ops.claim_all(Outcome::Disconnected, wakes);
        self.watchers.claim_all(Outcome::Disconnected, wakes);
    }
}

/// How a select takes part in a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It performs the operation.
    Op,
    /// It wants to know that the operation can be performed.
    Watch,
}

/// Claimed nodes, to be woken once the lock is released.
#[must_use = "claimed waiters must be woken"]
pub(crate) struct Wakes {
    first: *mut Node,
    last: *mut Node,
    /// A queue that was claimed as a whole, for it is disconnected: its nodes have not been touched.
    crowd: Queue,
}

impl Wakes {
    pub(crate) const fn new() -> Wakes {
        Wakes { first: ptr::null_mut(), last: ptr::null_mut(), crowd: Queue::new() }
    }

    /// Adds a node with its outcome.
    ///
    /// # Safety
    /// The caller has claimed the node and hands it over.
    #[inline]
    pub(crate) unsafe fn add(&mut self, node: NonNull<Node>, outcome: Outcome) {
        let node = node.as_ptr();
        // SAFETY: N3, for this node and for the last one.
        unsafe {
            (*node).outcome = outcome;
            (*node).next = ptr::null_mut();
            if self.last.is_null() {
                self.first = node;
            } else {
                (*self.last).next = node;
            }
        }
        self.last = node;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null() && self.crowd.is_empty()
    }

    /// Wakes them all. No lock may be held.
    #[inline]
    pub(crate) fn fire(self) {
        let mut cursor = self.first;
        while !cursor.is_null() {
            // SAFETY: N3 until `ready`, hence all is read before it.
            let waiter = unsafe {
                let node = &*cursor;
                cursor = node.next;
                node.waiter
            };
            waiter.ready();
        }
        if !self.crowd.is_empty() {
            self.crowd.fire();
        }
    }
}

/// How many of a crowd are read before the first of them is woken.
const AT_ONCE: usize = 16;

impl Queue {
    /// Wakes all of a crowd.
    ///
    /// To read a cold node is a miss, of the translation too, and only then the next one is known; to wake it is another. So
    /// they are read from both ends, and several before the first of them is woken: the misses overlap.
    #[cold]
    fn fire(mut self) {
        while !self.is_empty() {
            let several: [Option<Waiter>; AT_ONCE] = std::array::from_fn(|i| self.take_cold(i % 2 == 0));
            several.into_iter().flatten().for_each(Waiter::ready);
        }
    }

    /// Takes a node of a crowd, from the front or from the back, and tells it. Neighbours are left alone.
    fn take_cold(&mut self, from_front: bool) -> Option<Waiter> {
        let node = if from_front { self.first } else { self.last };
        // SAFETY: N3 until `ready`; all that is wanted of the node is read here.
        let node = unsafe { node.as_mut()? };
        node.linked = false;
        node.outcome = Outcome::Disconnected;
        if self.first == self.last {
            *self = Queue::new();
        } else if from_front {
            self.first = node.next;
        } else {
            self.last = node.prev;
        }
        node.waiter.prefetch();
        Some(node.waiter)
    }
}

/// A wait at a channel. Its visit is begun before the channel's lock is taken: the first wait of a thread allocates.
#[derive(Clone, Copy)]
pub(crate) struct Parker<V = Stepwise> {
    visit: V,
    reason: WaitReason,
    object: usize,
    deadline: Option<Instant>,
}

impl Parker {
    #[inline]
    pub(crate) fn new(reason: WaitReason, object: usize, deadline: Option<Instant>) -> Parker {
        Parker { visit: Stepwise::new(), reason, object, deadline }
    }

    /// With another deadline.
    pub(crate) fn until(self, deadline: Option<Instant>) -> Parker {
        Parker { deadline, ..self }
    }
}

impl<V: Visit> Parker<V> {
    /// A wait that ends a visit to the runtime.
    #[inline(always)]
    pub(crate) fn of(visit: V, reason: WaitReason, object: usize, deadline: Option<Instant>) -> Parker<V> {
        Parker { visit, reason, object, deadline }
    }

    /// Waits: `publish` pushes the node into a queue, releases the lock, and returns whom that wakes; `retract` is called
    /// after the deadline, to take the lock and unlink the node. Returns the outcome; `Pending` after the deadline.
    #[inline(always)]
    pub(crate) fn wait(
        self,
        slot: *mut u8,
        publish: impl FnOnce(*mut Node) -> Wakes,
        retract: impl FnOnce(*mut Node),
    ) -> Outcome {
        if self.deadline.is_some() {
            return self.wait_until(slot, publish, retract);
        }
        let mut node = Node::plain(self.visit.waiter(), slot);
        let node = &raw mut node;
        let wakes = publish(node);
        let place = Place { object: self.object, node: node as usize };
        if wakes.is_empty() {
            self.visit.park(self.reason, place.address());
        } else {
            drop(self.visit);
            wakes.fire();
            park(self.reason, place.address());
        }
        // SAFETY: the claimer wrote the outcome before its `ready`, and does not touch the node any more.
        unsafe { (*node).outcome }
    }

    #[cold]
    fn wait_until(
        self,
        slot: *mut u8,
        publish: impl FnOnce(*mut Node) -> Wakes,
        retract: impl FnOnce(*mut Node),
    ) -> Outcome {
        let wait = Wait::of(self.visit.waiter());
        let mut node = Node::shared(&wait, FIRST_FREE_CLAIM, slot);
        let node = &raw mut node;
        let wakes = publish(node);
        drop(self.visit);
        wakes.fire();
        let place = Place { object: self.object, node: node as usize };
        if ambient::park_until(&wait, self.reason, place.address(), self.deadline) == TIMED_OUT {
            retract(node);
            return Outcome::Pending;
        }
        // SAFETY: as in `wait`.
        unsafe { (*node).outcome }
    }
}

/// Sleeps until the deadline, or for ever. A context may end it earlier: then the result is false.
pub(crate) fn sleep_until(reason: WaitReason, object: usize, deadline: Option<Instant>) -> bool {
    match deadline {
        None => loop {
            park(reason, object);
        },
        Some(deadline) => {
            let claim = ambient::park_until(&Wait::new(), reason, object, Some(deadline));
            debug_assert_eq!(claim, TIMED_OUT);
            deadline <= clock::now()
        }
    }
}
