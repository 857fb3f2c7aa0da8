//! How locks wait: in the common wait queue (`sched/park/wait_queue.rs`), with nodes whose wait a deadline
//! may end, too. A number in each node says what the waiter asks for.

use std::ptr;
use std::time::Instant;

use crate::sched::park::limit;
use crate::sched::park::wait::{FIRST_FREE_CLAIM, UNCLAIMED, Wait, WaitPlace};
use crate::sched::park::wait_queue::{self, is_queued};
use crate::sched::word::status::WaitReason;

/// The waiters of one lock, in the order of their arrival. It is guarded by a runtime lock.
pub(crate) type Queue = wait_queue::Queue<usize>;
pub(in crate::sync) type Claimed = wait_queue::Claimed<usize>;
pub(in crate::sync) type ClaimedList = wait_queue::ClaimedList<usize>;
pub(in crate::sync) type Unlinked = wait_queue::Unlinked<usize>;

/// A waker's claim: the waiter has got what it asked for.
pub(in crate::sync) const GRANTED: usize = FIRST_FREE_CLAIM;
/// A waker's claim: the waiter has not got anything, and should try again.
pub(in crate::sync) const RETRY: usize = FIRST_FREE_CLAIM + 1;
/// A claim for waiters that may be moved from one queue to another: the first queue has released them.
pub(in crate::sync) const NOTIFIED: usize = FIRST_FREE_CLAIM + 2;

/// One waiter; lies on the waiter's stack.
#[repr(C)]
pub(crate) struct Node {
    /// First, so that its address is the node's.
    link: wait_queue::Node<usize>,
    pub(in crate::sync) wait: Wait,
}

impl Node {
    /// A wait of the caller, in no queue yet. Each kind of lock gives `tag` its own meaning.
    pub(in crate::sync) fn new(tag: usize) -> Node {
        let wait = Wait::new();
        Node { link: wait_queue::Node::new(wait.waiter(), ptr::null(), tag), wait }
    }

    /// The part that is pushed into a queue. The node must not move from now on.
    pub(in crate::sync) fn link(&self) -> &wait_queue::Node<usize> {
        self.link.set_wait(&self.wait);
        &self.link
    }

    /// Parks until the wait is claimed, by a waker or by the deadline. Returns the claim: `GRANTED`, `RETRY`,
    /// or another one, which means that the wait was given up and that the caller must take the queue's lock
    /// and remove the node.
    pub(in crate::sync) fn park(
        &self,
        reason: WaitReason,
        object: usize,
        deadline: Option<Instant>,
    ) -> usize {
        let place = WaitPlace { object, node: ptr::from_ref(self) as usize };
        let claim = limit::park_until(&self.wait, reason, place.address(), deadline);
        debug_assert_ne!(claim, UNCLAIMED);
        claim
    }

    /// What the waiter asks for.
    pub(in crate::sync) fn tag(&self) -> usize {
        self.link.data
    }

    /// For reports, while nothing changes: whether it is in a queue, and nobody has claimed it.
    pub(crate) fn waits(&self) -> bool {
        // SAFETY: a node lies there, and the report that calls this has made sure that nothing changes.
        unsafe { is_queued(ptr::from_ref(&self.link) as usize) }
    }
}

impl Queue {
    /// The tag of the first waiter, which may have just given up.
    pub(in crate::sync) fn front_tag(&self) -> Option<usize> {
        self.front().map(|node| node.data)
    }
}
