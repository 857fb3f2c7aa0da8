//! Helpers: the goroutines that run stolen forks. `sched/idle/fork_helpers.rs` has their list, and J1 and J2.

use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::job;
use crate::goroutine::spawn_in_bubble;
use crate::sched::idle::fork_helpers::{self, IdleHelper};
use crate::sched::machine::SCHED;
use crate::sched::park::channel_op::Caller;
use crate::sched::run::runtime_section;
use crate::sched::types::current::current;
use crate::sched::types::g::G;
use crate::sched::word::status::WaitReason;
use crate::stack::size::Need;

/// The first helper has been started, so from now on there is always one (J1), unless memory ran out.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Starts the first helper, unless it was started.
#[inline]
pub(super) fn start_first() {
    if !STARTED.load(Ordering::Relaxed) && !STARTED.swap(true, Ordering::Relaxed) {
        see_to_another();
    }
}

/// Makes sure that a helper is idle or starting (J1).
fn see_to_another() {
    let helpers = &SCHED.platform.forks;
    if helpers.needs_another() && spawn_in_bubble(0, || Need::usual(true), Location::caller(), work).is_err()
    {
        // No memory. The next outermost `join` tries again.
        helpers.has_started();
        STARTED.store(false, Ordering::Relaxed);
    }
}

/// A helper.
fn work() {
    SCHED.platform.forks.has_started();
    let Some(g) = current() else { return };
    g.test.set(0); // it belongs to no test, even if the goroutine that started it does
    let mut seed = g.id() as usize;
    loop {
        while let Some(fork) = fork_helpers::steal(seed) {
            seed = seed.wrapping_mul(5).wrapping_add(1);
            see_to_another();
            // SAFETY: it was stolen just now.
            unsafe { job::run(fork) };
            if g.lock_count.get() != 0 {
                // The fork has bound the goroutine to its thread, and left it bound.
                return see_to_another();
            }
            if others_wait(g) {
                break;
            }
        }
        if !rest(g) {
            return;
        }
    }
}

/// Whether goroutines wait for the P. The one that has waited for this helper's fork may be among them.
fn others_wait(g: &'static G) -> bool {
    g.m().p().is_some_and(|p| !p.runq.is_empty())
}

/// Waits until an M takes the helper for a fork. False: it is not needed any more.
fn rest(g: &'static G) -> bool {
    let section = runtime_section::enter_outermost(g);
    let helpers = &SCHED.platform.forks;
    let mut own = IdleHelper::new(g);
    // SAFETY: `own` stays here until the park has ended.
    let rests = unsafe { helpers.enter(&mut own) };
    if rests {
        section.park(WaitReason::ForkHelper, ptr::from_ref(helpers) as usize);
    }
    rests
}
