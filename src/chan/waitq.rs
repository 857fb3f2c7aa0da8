//! How operations wait at a channel: in the common wait queue (`sched/park/wait_queue.rs`), with nodes that
//! hold a pointer to the message and the outcome of the operation.
//!
//! Waiters are woken after the channel's lock is released: until then, claimed nodes are collected in a
//! [`Wakes`].

use std::cell::Cell;
use std::ptr::NonNull;
use std::time::Instant;

use crate::sched::park::channel_op::{Caller, Stepwise};
use crate::sched::park::clock;
use crate::sched::park::limit;
use crate::sched::park::park_ready::park;
use crate::sched::park::wait::{FIRST_FREE_CLAIM, TIMED_OUT, Wait, WaitPlace};
use crate::sched::park::wait_queue::{self, Claimed, ClaimedList};
use crate::sched::types::waiter::Waiter;
use crate::sched::word::status::WaitReason;

/// The outcome of an operation that waited, or of a case of a select that was tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Nothing yet.
    Pending,
    /// The message was moved into the receiver's slot, or out of the sender's.
    Done,
    /// The channel is disconnected; the message, if any, is still where it was.
    Disconnected,
    /// A send may be completed at any time: its place in the channel is reserved.
    Credit,
    /// A send may be completed at any time; nothing has to be reserved for it.
    Free,
    /// The send has to be completed by filling the slot of this receiver, which waits for it.
    Peer(NonNull<Node>),
    /// The other side withdrew; try again.
    Retry,
}

/// What a channel has to know about an operation that waits.
pub(crate) struct Exchange {
    /// The claim value for its `Wait`, if it has one.
    claim: usize,
    /// Where the message has to be written to or read from. Null for a select's send, whose message does not
    /// exist before it is selected, and for watchers, which only want to know that a channel is ready.
    pub(crate) slot: *mut u8,
    pub(crate) outcome: Cell<Outcome>,
}

/// One waiting operation.
pub(crate) type Node = wait_queue::Node<Exchange>;

impl Node {
    /// A node for a wait that only a claimer of this node can end.
    #[inline]
    pub(crate) fn plain(waiter: Waiter, slot: *mut u8) -> Node {
        Node::with(std::ptr::null(), waiter, 0, slot)
    }

    /// A node for a wait that other parties can end too. The claimer claims `wait` with `claim`.
    pub(crate) fn shared(wait: &Wait, claim: usize, slot: *mut u8) -> Node {
        Node::with(wait, wait.waiter(), claim, slot)
    }

    /// As [`shared`](Node::shared), where the caller knows the waiter, and `wait` may be null.
    #[inline]
    pub(crate) fn with(wait: *const Wait, waiter: Waiter, claim: usize, slot: *mut u8) -> Node {
        wait_queue::Node::new(waiter, wait, Exchange { claim, slot, outcome: Cell::new(Outcome::Pending) })
    }

    /// Whether there is a slot for the message.
    pub(crate) fn has_slot(&self) -> bool {
        !self.data.slot.is_null()
    }

    /// Where the message is to be written to or read from.
    pub(crate) fn slot(&self) -> *mut u8 {
        self.data.slot
    }

    /// The outcome so far.
    pub(crate) fn outcome(&self) -> Outcome {
        self.data.outcome.get()
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
    // SAFETY: the caller's promise.
    let claimed = unsafe { Claimed::from_raw(node) };
    claimed.node().data.outcome.set(outcome);
    claimed.into_waiter()
}

/// The object of a wait that something other than the handles of a channel can end: a timer, a select.
pub(crate) const ELSEWHERE: usize = 1;

/// Operations in the order of their arrival.
pub(crate) type Queue = wait_queue::Queue<Exchange>;

impl Queue {
    /// Takes and claims the first operation that can still be claimed; stale ones before it are dropped from
    /// the queue.
    #[inline]
    pub(crate) fn claim(&mut self) -> Option<NonNull<Node>> {
        self.pop_if(|_| true, |exchange| exchange.claim).map(Claimed::into_raw)
    }

    /// As [`claim`](Queue::claim), of operations with a slot only.
    pub(crate) fn claim_with_slot(&mut self) -> Option<NonNull<Node>> {
        self.pop_if(Node::has_slot, |exchange| exchange.claim).map(Claimed::into_raw)
    }

    /// Whether there is an operation that could be claimed, does not belong to `own` and satisfies `accept`.
    pub(crate) fn has_other(&self, own: *const Wait, accept: impl Fn(&Node) -> bool) -> bool {
        self.has_claimable(|node| (own.is_null() || node.wait() != own) && accept(node))
    }

    /// Claims all operations that can be claimed, and adds them to `wakes` with `outcome`.
    #[inline]
    pub(crate) fn claim_all(&mut self, outcome: Outcome, wakes: &mut Wakes) {
        while let Some(node) = self.claim() {
            // SAFETY: just claimed.
            unsafe { wakes.add(node, outcome) };
        }
    }
}

/// The waiters at one side of a channel.
pub(crate) struct Side {
    /// Operations; the first is served next.
    pub(crate) ops: Queue,
    /// Waiters that only want to know that an operation became possible; all of them are woken.
    pub(crate) watchers: Queue,
}

/// How many receivers of a closed channel are claimed at a time, before the lock is released and they are
/// woken.
const TOLD_AT_ONCE: usize = 16;

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

    /// Ends all waits, because the channel is disconnected.
    pub(crate) fn disconnect(&mut self, wakes: &mut Wakes) {
        self.ops.claim_all(Outcome::Disconnected, wakes);
        self.watchers.claim_all(Outcome::Disconnected, wakes);
    }

    /// As [`disconnect`](Side::disconnect), for some of them. True: more are left; the caller must wake these
    /// and call it again.
    ///
    /// There may be a million waiters, whose memory is not cached. Each is touched here and, while it is
    /// still in the cache, again when it is woken. And the lock is not held for long.
    #[must_use]
    pub(crate) fn disconnect_some(&mut self, wakes: &mut Wakes) -> bool {
        for _ in 0..TOLD_AT_ONCE {
            // To take a node out touches the next one, which is cold: the waiter's own memory is fetched
            // meanwhile.
            if let Some(first) = self.ops.front() {
                first.waiter().prefetch();
            }
            let Some(node) = self.ops.claim() else { break };
            // SAFETY: just claimed.
            unsafe { wakes.add(node, Outcome::Disconnected) };
        }
        self.watchers.claim_all(Outcome::Disconnected, wakes);
        !self.ops.is_empty()
    }
}

/// How a select takes part in a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It performs the operation.
    Op,
    /// It only wants to know that the operation can be performed.
    Watch,
}

/// Claimed nodes, to be woken once the lock is released.
#[must_use = "claimed waiters must be woken"]
pub(crate) struct Wakes(ClaimedList<Exchange>);

impl Wakes {
    pub(crate) const fn new() -> Wakes {
        Wakes(ClaimedList::new())
    }

    /// Adds a node with its outcome.
    ///
    /// # Safety
    /// The caller has claimed the node and hands it over.
    #[inline]
    pub(crate) unsafe fn add(&mut self, node: NonNull<Node>, outcome: Outcome) {
        // SAFETY: the caller's promise.
        let claimed = unsafe { Claimed::from_raw(node) };
        claimed.node().data.outcome.set(outcome);
        self.0.push(claimed);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Wakes them all. No lock may be held.
    #[inline]
    pub(crate) fn fire(self) {
        self.0.ready_all();
    }
}

/// A wait at a channel. It must be made before the channel's lock is taken, because the first wait of a
/// thread allocates.
#[derive(Clone, Copy)]
pub(crate) struct Parker<C = Stepwise> {
    caller: C,
    reason: WaitReason,
    object: usize,
    deadline: Option<Instant>,
}

impl Parker {
    #[inline]
    pub(crate) fn new(reason: WaitReason, object: usize, deadline: Option<Instant>) -> Parker {
        Parker { caller: Stepwise::new(), reason, object, deadline }
    }

    /// With another deadline.
    pub(crate) fn until(self, deadline: Option<Instant>) -> Parker {
        Parker { deadline, ..self }
    }
}

impl<C: Caller> Parker<C> {
    /// A wait of a caller that is inside the runtime and leaves it by waiting.
    #[inline(always)]
    pub(crate) fn of(caller: C, reason: WaitReason, object: usize, deadline: Option<Instant>) -> Parker<C> {
        Parker { caller, reason, object, deadline }
    }

    /// Waits. `publish` pushes the node into a queue, releases the lock, and returns the waiters that have to
    /// be woken. `retract` is called after the deadline; it takes the lock and unlinks the node. Returns the
    /// outcome, which is `Pending` after the deadline.
    #[inline(always)]
    pub(crate) fn wait(
        self,
        slot: *mut u8,
        publish: impl FnOnce(*const Node) -> Wakes,
        retract: impl FnOnce(*const Node),
    ) -> Outcome {
        if self.deadline.is_some() {
            return self.wait_until(slot, publish, retract);
        }
        let node = Node::plain(self.caller.waiter(), slot);
        let node = &raw const node;
        let wakes = publish(node);
        let place = WaitPlace { object: self.object, node: node as usize };
        if wakes.is_empty() {
            self.caller.park(self.reason, place.address());
        } else {
            drop(self.caller);
            wakes.fire();
            park(self.reason, place.address());
        }
        // SAFETY: the claimer wrote the outcome before its `ready`, and does not touch the node any more.
        unsafe { (*node).outcome() }
    }

    #[cold]
    fn wait_until(
        self,
        slot: *mut u8,
        publish: impl FnOnce(*const Node) -> Wakes,
        retract: impl FnOnce(*const Node),
    ) -> Outcome {
        let wait = Wait::of(self.caller.waiter());
        let node = Node::shared(&wait, FIRST_FREE_CLAIM, slot);
        let node = &raw const node;
        let wakes = publish(node);
        drop(self.caller);
        wakes.fire();
        let place = WaitPlace { object: self.object, node: node as usize };
        if limit::park_until(&wait, self.reason, place.address(), self.deadline) == TIMED_OUT {
            retract(node);
            return Outcome::Pending;
        }
        // SAFETY: as in `wait`.
        unsafe { (*node).outcome() }
    }
}

/// Sleeps until the deadline, or forever. A context may end the sleep earlier: then the result is false.
pub(crate) fn sleep_until(reason: WaitReason, object: usize, deadline: Option<Instant>) -> bool {
    match deadline {
        None => loop {
            park(reason, object);
        },
        Some(deadline) => {
            let claim = limit::park_until(&Wait::new(), reason, object, Some(deadline));
            debug_assert_eq!(claim, TIMED_OUT);
            deadline <= clock::now()
        }
    }
}
