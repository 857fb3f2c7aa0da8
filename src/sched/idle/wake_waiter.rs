//! Ending a wait inside the runtime. `park/park_ready.rs` has the way for code outside.

use crate::sched::machine::{SCHED, hooks};
use crate::sched::types::g::GList;
use crate::sched::types::waiter::{Target, Waiter};

impl Waiter {
    /// Ends the wait, inside the runtime: a goroutine that is to run is appended to `list`, and the caller injects the list.
    /// Never blocks, allocates nothing. For pollers and timers.
    pub(crate) fn wake_into(self, list: &GList) {
        let mut next = Some(self);
        while let Some(waiter) = next.take() {
            match waiter.target() {
                Target::Goroutine(g) if !g.park.notify() => {}
                Target::Goroutine(g) if g.bubble.get() == 0 => list.push_back(g),
                Target::Goroutine(g) => (hooks().bubble.ready)(g, None),
                Target::Thread(note) => note.set(),
                Target::Poller(word, poller) => next = word.notify().then_some(poller),
                // SAFETY: the promise of `from_hook`.
                Target::Hook(hook) => next = unsafe { ((*hook).ready_inside)(hook) },
            }
        }
    }

    /// As [`wake_into`](Waiter::wake_into), for code inside the runtime that may have no P: g0, or a signal handler, which
    /// runs on the stopped goroutine's thread-locals but must not act as that goroutine.
    pub(crate) fn ready_without_p(self) {
        let list = GList::new();
        self.wake_into(&list);
        SCHED.inject_global(&list);
    }
}
