//! Running due timers. Five places do: a P between goroutines, a thief that found nothing else (both `run/find_runnable.rs`),
//! the M that waits in the poller until the earliest one (it becomes a thief), sysmon when no P comes to look and no M polls,
//! and a P that is retired moves its timers to P 0.

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

/// Fires what is due in a heap. Goroutines that are to run are appended to `ready`.
pub(crate) fn run_due(timers: &Timers, now: u64, ready: &GList) {
    timers.run_due(now, |waiter| Waiter::from_word(waiter).wake_into(ready));
}

/// Fires what is due on `of` and makes the goroutines runnable on `own`, which the caller owns.
pub(crate) fn run_on(own: &'static P, of: &'static P) {
    if of.timers.seems_empty() {
        return;
    }
    let ready = GList::new();
    run_due(&of.timers, nanotime(), &ready);
    SCHED.inject_on(own, &ready);
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
