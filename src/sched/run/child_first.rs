//! Whether the parent or the child runs first after a spawn.
//!
//! Usually the parent does, and the child waits in `runnext`. But where goroutines are spawned faster than
//! they end, each would get a stack and wait with it in a queue: a tree of a million goroutines had a hundred
//! thousand stacks at a time, and their pages cost more than everything else. So when the ring is crowded (it
//! holds enough for thieves), the child runs first, and its parent waits in `runnext`. Most children end or
//! park soon, and the next child gets a stack that is still cached.
//!
//! ```text
//! parent   launch --+                                                      +-- goes on
//! child             +-- finish_switch: parent into runnext -- ... ends ----+
//! ```
//! - F1. No M can see the parent in a queue before its stack is no longer in use: the child's first step puts
//!   the parent there and wakes an M, as for any goroutine that stopped.
//! - F2. Only a goroutine with private TLS lets its child go first. A shared-TLS goroutine may stop only at
//!   documented places (`Builder::spawn_shared_tls`), and a spawn is not one of them.
//! - F3. Consider goroutines that each spawn a successor and then end. If every child went first, none of
//!   them would ever end. So along a chain of parent and child at most [`GENERATIONS`] go first.
//! - F4. A parent may hold a lock that its child needs, and a child may compute or block for long, while the
//!   parent waits. From then on that parent uses Go's order ([`was_kept_waiting`]). For this reason, children
//!   go first only where sysmon can take the P from a child that blocks (`block/unmarked.rs`).

use std::sync::atomic::Ordering;

use super::runtime_section::Section;
use crate::sched::types::g::G;
use crate::sched::types::p::P;
use crate::sys::membarrier;

/// How many goroutines along a chain of parent and child may run before their parents.
const GENERATIONS: u8 = 16;

/// Whether `child`, which the section's goroutine has made and not yet published, runs first; sets its
/// `firsts`.
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
        && section.g().in_runtime.get() == 1
        && m.locked_g.get().is_none()
        && !p.preempt.load(Ordering::Relaxed)
}

/// Called when the goroutine that ran on `p` blocked or used up its slice. The goroutine in `runnext` may be
/// its parent, which let it go first; from now on that one lets no child go first. (If it is not the parent,
/// it loses nothing but that. The same holds if its slot has passed to another goroutine meanwhile.)
pub(crate) fn was_kept_waiting(p: &'static P) {
    // SAFETY: Gs are never unmapped.
    if let Some(parent) = unsafe { p.runq.peek_next().as_ref() } {
        parent.firsts.store(GENERATIONS, Ordering::Relaxed);
    }
}
