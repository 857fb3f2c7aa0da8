//! Waking a Waiter from inside the runtime. Code outside wakes it through `park/park_ready.rs`.

use crate::sched::event;
use crate::sched::machine::{SCHED, hooks};
use crate::sched::types::g::GList;
use crate::sched::types::waiter::{Target, Waiter};

impl Waiter {
    /// Ends the wait. A goroutine that becomes runnable is appended to `list`, which the caller injects into
    /// a run queue. Never blocks and never allocates, so that the netpoller and timers can call it.
    pub(crate) fn wake_into(self, list: &GList) {
        let mut next = Some(self);
        while let Some(waiter) = next.take() {
            match waiter.target() {
                Target::Goroutine(g) if !g.park.notify() => {}
                Target::Goroutine(g) => {
                    if event::is_on() {
                        SCHED.platform.unblocked_anywhere(g);
                    }
                    match g.bubble.get() {
                        0 => list.push_back(g),
                        _ => (hooks().bubble.ready)(g, None),
                    }
                }
                Target::Thread(note) => note.set(),
                Target::Poller(word, poller) => next = word.notify().then_some(poller),
                // SAFETY: the promise of `from_hook`.
                Target::Hook(hook) => next = unsafe { ((*hook).ready_inside)(hook) },
            }
        }
    }

    /// As [`wake_into`](Waiter::wake_into), and queues the goroutine. For code inside the runtime that may
    /// have no P: g0, or a signal handler, which runs on the stopped goroutine's thread-locals but must not
    /// act as that goroutine.
    pub(crate) fn ready_without_p(self) {
        let list = GList::new();
        self.wake_into(&list);
        SCHED.inject_global(&list);
    }
}
