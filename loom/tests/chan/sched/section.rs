//! Threads of the models are foreign to the runtime: they have nothing to enter.

use crate::sched::reason::WaitReason;
use crate::sched::visit::Visit;
use crate::sched::waiter::Waiter;

pub(crate) enum Outermost {}

pub(crate) fn visit() -> Option<Outermost> {
    None
}

impl Visit for Outermost {
    fn waiter(&self) -> Waiter {
        match *self {}
    }

    fn ready(self, _: Waiter) {
        match self {}
    }

    fn park(self, _: WaitReason, _: usize) {
        match self {}
    }
}

/// As the real one: leaving is an act.
impl Drop for Outermost {
    fn drop(&mut self) {}
}
