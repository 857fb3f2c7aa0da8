//! What a select needs of a sender or a receiver, whatever its messages are.

use std::time::Instant;

use crate::chan::waitq::{Kind, Node, Outcome};
use crate::sched::visit::Inside;

/// One end of a channel that takes part in a select.
pub(crate) trait Handle {
    /// Tries the operation without waiting; `Pending` means that it is not ready.
    ///
    /// A receive that is `Done` has put its message into the slot. A send has no message yet: it comes back
    /// with `Credit`, `Free` or `Peer`, to be completed or cancelled later.
    ///
    /// # Safety
    /// For a receiver, the slot has room for a message.
    unsafe fn attempt(&self, slot: *mut u8) -> Outcome;

    /// Would the operation be ready now?
    fn is_ready(&self) -> bool;

    /// The address of the channel, if only its handles can make the operation ready; 0 if nothing can; `None` if
    /// something else can, a timer for example.
    fn object(&self) -> Option<usize> {
        None
    }

    /// When the operation becomes ready by itself, at the latest.
    fn deadline(&self) -> Option<Instant>;

    /// Queues the operation. False if it is (or may be) ready now; then it was not queued.
    ///
    /// # Safety
    /// The node's owner keeps the rules of `waitq.rs`; the slot of a receive has room for a message.
    unsafe fn enqueue(&self, visit: &mut Inside, node: *mut Node, kind: Kind) -> bool;

    /// Takes the operation out of the queue, if it is still there.
    ///
    /// # Safety
    /// The node is alive and was queued here with this kind.
    unsafe fn dequeue(&self, visit: &Inside, node: *mut Node, kind: Kind);

    /// Undoes a selected operation that will not be completed: a send gives back what was promised to it, the
    /// message of a receive is dropped.
    ///
    /// # Safety
    /// `outcome` came from this operation, was not used otherwise, and the message in the slot may be dropped
    /// by this thread.
    unsafe fn cancel(&self, outcome: Outcome, slot: *mut u8);
}
