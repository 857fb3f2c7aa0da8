//! How locks wait: nodes of the one wait queue (`sched/park/wait_queue.rs`) whose wait a deadline may end,
//! too, with a number that says what the waiter asks for.

use std::ptr;
use std::time::Instant;

use crate::sched::park::limit;
use crate::sched::park::wait::{FIRST_FREE_CLAIM, UNCLAIMED, Wait, WaitPlace};
use crate::sched::park::wait_queue::{self, is_queued};
use crate::sched::types::wait_reason::WaitReason;

/// The waiters of one primitive, first come first. Lives under a runtime lock.
pub(crate) type Queue = wait_queue::Queue<usize>;
pub(super) type Claimed = wait_queue::Claimed<usize>;
pub(super) type ClaimedList = wait_queue::ClaimedList<usize>;
pub(super) type Unlinked = wait_queue::Unlinked<usize>;

/// A waker's claim: the waiter has got what it asked for.
pub(super) const GRANTED: usize = FIRST_FREE_CLAIM;
/// A waker's claim: the waiter should look again, and has not got anything.
pub(super) const RETRY: usize = FIRST_FREE_CLAIM + 1;
/// A claim for waiters that may be moved from one queue to another: the first one has let them go.
pub(super) const NOTIFIED: usize = FIRST_FREE_CLAIM + 2;

/// One waiter, on its stack.
#[repr(C)]
pub(crate) struct Node {
    /// First, so that its address is the node's.
    link: wait_queue::Node<usize>,
    pub(super) wait: Wait,
}

impl Node {
    /// A wait of the caller, in no queue yet. The meaning of `tag` is the primitive's.
    pub(super) fn new(tag: usize) -> Node {
        let wait = Wait::new();
        Node { link: wait_queue::Node::new(wait.waiter(), ptr::null(), tag), wait }
    }

    /// What is pushed into a queue. The node stays where it is from now on.
    pub(super) fn link(&self) -> &wait_queue::Node<usize> {
        self.link.set_wait(&self.wait);
        &self.link
    }

    /// Parks until the wait is claimed, by a waker or by the deadline. Returns the claim: `GRANTED`, `RETRY`,
    /// or another one, which means that the wait was given up and that the caller must take the queue's lock
    /// and remove the node.
    pub(super) fn park(&self, reason: WaitReason, object: usize, deadline: Option<Instant>) -> usize {
        let place = WaitPlace { object, node: ptr::from_ref(self) as usize };
        let claim = limit::park_until(&self.wait, reason, place.address(), deadline);
        debug_assert_ne!(claim, UNCLAIMED);
        claim
    }

    /// What the waiter asks for.
    pub(super) fn tag(&self) -> usize {
        self.link.data
    }

    /// Whether it is in a queue, and nobody has claimed it. For reports, while nothing changes.
    pub(crate) fn waits(&self) -> bool {
        // SAFETY: a node lies there, and a report sees to it that nothing changes.
        unsafe { is_queued(ptr::from_ref(&self.link) as usize) }
    }
}

impl Queue {
    /// The tag of the first waiter. It may be one that has just given up.
    pub(super) fn front_tag(&self) -> Option<usize> {
        self.front().map(|node| node.data)
    }
}
