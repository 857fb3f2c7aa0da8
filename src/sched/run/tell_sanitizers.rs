//! Tells AddressSanitizer and ThreadSanitizer that an M goes from one stack to another (`sys/sanitizer.rs`).
//!
//! Each function is called after the thread pointer has moved to that of the next stack, and before the
//! goroutine that stops is published. Without a sanitizer in the program it is one branch.

use crate::arch;
use crate::sched::types::g::{G, Switch};
use crate::sched::types::m::M;
use crate::sys::sanitizer::{self, Fiber, Leaves};
use crate::tls;

/// `m` is about to go from g0 to `g`.
#[inline(always)]
pub(super) fn from_g0(m: &'static M, g: &'static G) {
    if sanitizer::is_active() {
        tell(m, &m.fiber, fiber_of(g), Leaves::Suspended);
    }
}

/// `m` is about to go from the goroutine `g`, on whose stack this is called, to `next`.
#[inline(always)]
pub(super) fn directly(m: &'static M, g: &'static G, why: Switch, next: &'static G) {
    if sanitizer::is_active() {
        tell(m, fiber_of(g), fiber_of(next), leaves(why, arch::stack_pointer()));
    }
}

/// `m` has come from `g` to g0.
#[inline(always)]
pub(super) fn to_g0(m: &'static M, g: &'static G, why: Switch) {
    if sanitizer::is_active() {
        tell(m, fiber_of(g), &m.fiber, leaves(why, g.context.get()));
    }
}

fn leaves(why: Switch, sp: usize) -> Leaves {
    match why {
        Switch::End | Switch::Gone => Leaves::Ended(sp - arch::RED_ZONE),
        _ => Leaves::Suspended,
    }
}

#[inline(always)]
fn tell(m: &'static M, from: &Fiber, to: &Fiber, leaves: Leaves) {
    // SAFETY: this M owns both stacks until it has switched (G2), and its thread pointer has moved.
    unsafe { sanitizer::switch(&m.fiber, from, to, leaves) };
}

#[cold]
fn fiber_of(g: &'static G) -> &'static Fiber {
    // SAFETY: every slot has memory for its block, and we own g.
    match unsafe { tls::block::fiber_of(g.slot.block) } {
        Some(fiber) => {
            fiber.set_stack(g.slot.stack());
            fiber
        }
        None => unreachable!("blocks have room for it if a sanitizer is active"),
    }
}
