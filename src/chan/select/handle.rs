//! The interface between a select and a sender or receiver, independent of the message type.

use std::time::Instant;

use crate::chan::waitq::{Kind, Node, Outcome};
use crate::sched::park::channel_op::Inside;

/// One end of a channel that takes part in a select.
pub(crate) trait Handle {
    /// Tries the operation without waiting; `Pending` means that it is not ready.
    ///
    /// A receive that is `Done` has put its message into the slot. A send has no message yet: its outcome is
    /// `Credit`, `Free` or `Peer`, and the caller completes or cancels it later. Both can be `Disconnected`.
    ///
    /// # Safety
    /// For a receiver, the slot has room for a message.
    unsafe fn attempt(&self, slot: *mut u8) -> Outcome;

    /// Could the operation complete (or fail) now, without waiting?
    fn is_ready(&self) -> bool;

    /// The address of the channel, if only its handles can make the operation ready. 0 if nothing can make it
    /// ready. `None` if something else can, for example a timer.
    fn object(&self) -> Option<usize> {
        None
    }

    /// When the operation becomes ready by itself, at the latest: the due time of a timer channel, otherwise
    /// `None`.
    fn deadline(&self) -> Option<Instant>;

    /// Queues the operation. Returns false, and does not queue it, if it is (or may be) ready now.
    ///
    /// # Safety
    /// The node's owner keeps the rules of `waitq.rs`; the slot of a receive has room for a message.
    unsafe fn enqueue(&self, visit: &mut Inside, node: *const Node, kind: Kind) -> bool;

    /// Takes the operation out of the queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was queued here with this kind.
    unsafe fn dequeue(&self, visit: &Inside, node: *const Node, kind: Kind);

    /// Undoes a selected operation that will not be completed: a send gives its reservation or its receiver
    /// back, a receive drops its message.
    ///
    /// # Safety
    /// `outcome` came from this operation, was not used otherwise, and the message in the slot may be dropped
    /// by this thread.
    unsafe fn cancel(&self, outcome: Outcome, slot: *mut u8);
}
