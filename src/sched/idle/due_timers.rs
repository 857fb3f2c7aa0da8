//! Running due timers. Five callers do:
//!
//! - the owner of a P, between two goroutines (`run/find_runnable.rs`);
//! - a thief that found nothing to steal (the same file);
//! - the M that waited for the earliest timer (`poll_wait.rs`), before it takes a P;
//! - sysmon, when no P gets to its timers and no M polls;
//! - the housekeeper, when no M polls and none can be started (`poll_wait.rs`).
//!
//! A P that is retired moves its timers to P 0.

use crate::sched::idle::poll_wait;
use crate::sched::machine::SCHED;
use crate::sched::types::g::GList;
use crate::sched::types::p::P;
use crate::sched::types::waiter::Waiter;
use crate::sys::clock::nanotime;
use crate::timer::{NEVER, Timers};

/// The earliest time in any P's heap (ns), or `NEVER`.
pub(crate) fn earliest() -> u64 {
    SCHED.all_ps().map(|p| p.timers.next()).min().unwrap_or(NEVER)
}

/// Fires the timers that are due in a heap. Goroutines that become runnable are appended to `ready`.
pub(crate) fn run_due(timers: &Timers, now: u64, ready: &GList) {
    timers.run_due(now, |waiter| Waiter::from_word(waiter).wake_into(ready));
}

/// Fires the timers that are due on `of` and queues the goroutines on `own`, which the caller owns.
pub(crate) fn run_due_of(own: &'static P, of: &'static P) {
    if of.timers.seems_empty() {
        return;
    }
    let ready = GList::new();
    run_due(&of.timers, nanotime(), &ready);
    SCHED.inject_on(own, &ready);
}

/// Fires the timers that are due on any P, for a thread without a P.
pub(crate) fn run_all_without_p() {
    let (now, ready) = (nanotime(), GList::new());
    SCHED.all_ps().for_each(|p| run_due(&p.timers, now, &ready));
    SCHED.inject_global(&ready);
}

/// Moves all timers of a retired P to P 0, which is never retired.
pub(crate) fn move_to_first_p(p: &'static P) {
    if let Some(first) = SCHED.p(0) {
        let earliest = p.timers.move_all(&first.timers);
        if earliest != NEVER {
            poll_wait::new_deadline(earliest);
        }
    }
}
