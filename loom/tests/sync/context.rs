//! No contexts in the models: their end is one more deadline.

#[allow(dead_code, reason = "locks and channels use different parts")]
pub(crate) mod ambient {
    use std::time::Instant;

    use crate::sched::reason::WaitReason;
    use crate::sched::waiter::Wait;

    pub(crate) fn park_until(
        wait: &Wait,
        reason: WaitReason,
        object: usize,
        deadline: Option<Instant>,
    ) -> usize {
        wait.park_until(reason, object, deadline)
    }

    pub(crate) fn is_over() -> bool {
        false
    }

    pub(crate) fn suspend() {}
}
