//! Which of the two goes on after a spawn.
//!
//! Usually the parent does, and the child waits in `runnext`. But where goroutines are made faster than they
//! end, each would get a stack and wait with it in a queue: a tree of a million goroutines had a hundred
//! thousand stacks at a time, and paid more for their pages than for all else. So when the ring is crowded
//! (there is enough for thieves), the child runs first, and its parent waits in `runnext`: most children end
//! or park soon, and the next child gets a stack that is warm.
//!
//! ```text
//! parent  launch ── switch ─────────────────────────────────────── goes on
//! child            └─ finish_switch: parent into runnext ── … ends ─┘
//! ```
//! - F1. No M can see the parent in a queue before its stack is at rest: the child's first step puts it
//!   there, and wakes an M for it, as for any goroutine that stopped.
//! - F2. Only a goroutine with thread-locals of its own lets its child go first: for one of the other kind
//!   each place where it may stop is part of a promise (`Builder::spawn_shared_tls`), and a spawn is none.
//! - F3. A goroutine that spawns its successor and ends would otherwise be overtaken by it, that one by the
//!   next, and so on, and none would end: so not more than [`GENERATIONS`] of a line of descent go first.
//! - F4. A parent may hold a lock that its child needs, and a child may compute or block for long. Then it is
//!   the parent that was kept waiting: it goes on with Go's order from then on ([`was_kept_waiting`]). So
//!   this is done only where the P can be taken from a child that blocks (`block/unmarked.rs`).

use std::sync::atomic::Ordering;

use super::runtime_section::Section;
use crate::sched::types::g::G;
use crate::sched::types::p::P;
use crate::sys::membarrier;

/// How many goroutines of a line of descent may run before their parents.
const GENERATIONS: u8 = 16;

/// Whether `child`, which the goroutine of the section has made and nobody else knows, is to run first.
/// Counts it.
#[inline]
pub(crate) fn goes_first(section: &Section, p: &'static P, child: &'static G) -> bool {
    let parent = section.g();
    let generation = parent.firsts.load(Ordering::Relaxed);
    // SAFETY: the section has the P.
    let crowded = unsafe { p.runq.owner() }.is_crowded();
    let first = crowded && generation < GENERATIONS && may_stop(section, p);
    child.firsts.store(generation + u8::from(first), Ordering::Relaxed);
    first
}

fn may_stop(section: &Section, p: &'static P) -> bool {
    let m = section.m();
    section.g().tp.get() != 0
        && membarrier::is_available()
        && m.in_runtime.get() == 1
        && m.locked_g.get().is_none()
        && !p.preempt.load(Ordering::Relaxed)
}

/// The goroutine that ran on `p` blocked, or used its slice up: the goroutine in runnext may have let it go
/// first, and from now on lets none go first. (If it has not, it loses nothing else. By the time we look, the
/// slot may be another goroutine's: the same holds.)
pub(crate) fn was_kept_waiting(p: &'static P) {
    // SAFETY: Gs are never unmapped.
    if let Some(parent) = unsafe { p.runq.peek_next().as_ref() } {
        parent.firsts.store(GENERATIONS, Ordering::Relaxed);
    }
}
