//! Starting and stopping timers, and sleeping.
//!
//! A goroutine's timer goes into the heap of its P, or of its bubble. A foreign thread has no P and puts its
//! timer into the heap of P 0, which is never retired. Some M runs the timers of that heap: the poller, an M
//! that gives up its P later, or an M that `poll_wait::ensure` wakes.

use super::park_ready::park_goroutine;
use crate::sched::idle::poll_wait;
use crate::sched::machine::{SCHED, hooks};
use crate::sched::run::runtime_section::{self, Section};
use crate::sched::types::g::G;
use crate::sched::types::waiter::Waiter;
use crate::sched::word::status::WaitReason;
use crate::timer::{self, NEVER, Timer, Timers};

/// The heap for the timers of `g`, if it is in a bubble.
#[inline]
fn bubble_timers(g: &G) -> Option<&'static Timers> {
    match g.bubble.get() {
        0 => None,
        number => Some((hooks().bubble.timers)(number)),
    }
}

/// Starts `timer`, which is in no heap: it fires at `when`, on the caller's P or in its bubble.
///
/// # Safety
/// The timer stays in place until it has fired or [`stop`] returned.
#[inline]
pub(crate) unsafe fn start(section: &Section, timer: &Timer, when: u64) {
    // SAFETY: passed on.
    unsafe {
        match bubble_timers(section.g()) {
            Some(timers) => drop(timers.insert(timer, when)),
            None if section.p().timers.insert(timer, when) => poll_wait::new_deadline(when),
            None => {}
        }
    }
}

/// As [`start`], for goroutines and foreign threads. The runtime must have started.
///
/// # Safety
/// As [`start`].
pub(crate) unsafe fn start_anywhere(timer: &Timer, when: u64) {
    if let Some(section) = runtime_section::enter() {
        // SAFETY: passed on.
        return unsafe { start(&section, timer, when) };
    }
    let Some(first_p) = SCHED.p(0) else { unreachable!("a running runtime has a P") };
    // SAFETY: passed on.
    if unsafe { first_p.timers.insert(timer, when) } {
        poll_wait::new_deadline(when);
        poll_wait::ensure();
    }
}

/// As [`timer::stop`], for goroutines and foreign threads.
pub(crate) fn stop(timer: &Timer) -> bool {
    let _section = runtime_section::enter();
    timer::stop(timer)
}

/// Stops the calling goroutine until `when`, in nanoseconds of its clock.
pub(crate) fn sleep_goroutine(g: &'static G, when: u64) {
    if when != NEVER {
        let section = runtime_section::enter_as(g);
        let sleeper = Waiter::of(g).to_word();
        match bubble_timers(g) {
            Some(timers) => drop(timers.insert_sleeper(sleeper, when)),
            None if section.p().timers.insert_sleeper(sleeper, when) => poll_wait::new_deadline(when),
            None => {}
        }
    }
    park_goroutine(g, WaitReason::Sleep, 0);
}
