//! A context as a limit of waits (`sched/park/limit.rs`): the wait is also queued at the context's `done`
//! channel, and the end of the context claims it as the deadline does.

use std::ptr;
use std::time::Instant;

use super::inner::Canceler;
use crate::chan::select::handle::Handle;
use crate::chan::waitq::{Kind, Node};
use crate::sched::park::channel_op::Inside;
use crate::sched::park::limit::Limit;
use crate::sched::park::wait::{TIMED_OUT, Wait};
use crate::sched::word::status::WaitReason;

impl Limit for Canceler {
    fn is_over(&self) -> bool {
        self.error().is_some()
    }

    #[cold]
    fn park_until(&self, wait: &Wait, reason: WaitReason, object: usize, deadline: Option<Instant>) -> usize {
        let done = self.done();
        let node = Node::shared(wait, TIMED_OUT, ptr::null_mut());
        let node = &raw const node;
        // SAFETY: the node lives here, and is taken out below before we leave.
        let queued = unsafe { done.enqueue(&mut Inside::enter(), node, Kind::Watch) };
        if !queued && wait.try_claim(TIMED_OUT) {
            return TIMED_OUT;
        }
        // If a waker has claimed the wait already, this returns with its wake-up.
        let claim = wait.park_until(reason, object, deadline);
        if queued {
            // SAFETY: queued above.
            unsafe { done.dequeue(&Inside::enter(), node, Kind::Watch) };
        }
        claim
    }
}
