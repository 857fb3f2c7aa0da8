//! Tells AddressSanitizer and ThreadSanitizer that an M goes from one stack to another (`sys/sanitizer.rs`).
//!
//! Each function is called after the thread pointer has moved to that of the next stack, and before the
//! goroutine that stops is published. Without a sanitizer in the program a switch has one branch more.

use std::ffi::c_void;

use crate::arch;
use crate::sched::types::g::{G, Switch};
use crate::sched::types::m::M;
use crate::sys::sanitizer::{self, Fiber, Leaves};
use crate::tls;

/// `m` is about to go from g0 to `g`.
#[inline(always)]
pub(super) fn from_g0(m: &'static M, g: &'static G) {
    if sanitizer::is_active() {
        tell(m, None, Some(g), Switch::Park);
    }
}

/// `m` is about to go from the goroutine `g`, on whose stack this is called, to `next`. There is a sanitizer.
#[inline(always)]
pub(super) fn directly(m: &'static M, g: &'static G, why: Switch, next: &'static G) {
    tell(m, Some(g), Some(next), why);
}

/// `m` has come from `g` to g0.
#[inline(always)]
pub(super) fn to_g0(m: &'static M, g: &'static G, why: Switch) {
    if sanitizer::is_active() {
        tell(m, Some(g), None, why);
    }
}

/// `from` and `to` are goroutines, or g0 (`None`); `why` says why a goroutine stops.
#[inline(always)]
fn tell(m: &'static M, from: Option<&'static G>, to: Option<&'static G>, why: Switch) {
    let next = leave(m, from, to, why);
    // SAFETY: called where the stacks are switched.
    unsafe { sanitizer::enter(next) };
    has_left(m, from, why);
}

#[cold]
#[inline(never)]
fn leave(m: &'static M, from: Option<&'static G>, to: Option<&'static G>, why: Switch) -> *mut c_void {
    // SAFETY: this M owns both stacks until it has switched (G2), and its thread pointer has moved.
    unsafe { sanitizer::leave(&m.fiber, fiber_of(m, from), fiber_of(m, to), leaves(from, to, why)) }
}

#[cold]
#[inline(never)]
fn has_left(m: &'static M, from: Option<&'static G>, why: Switch) {
    // SAFETY: as in `leave`.
    unsafe { sanitizer::has_left(fiber_of(m, from), leaves(from, None, why)) };
}

fn leaves(from: Option<&'static G>, to: Option<&'static G>, why: Switch) -> Leaves {
    match (from, why) {
        // On the way to another goroutine this runs on the stack that is left, and to g0 on that of g0.
        (Some(g), Switch::End | Switch::Gone) => {
            let sp = if to.is_some() { arch::stack_pointer() } else { g.context.get() };
            Leaves::Ended(sp - arch::RED_ZONE)
        }
        _ => Leaves::Suspended,
    }
}

fn fiber_of(m: &'static M, g: Option<&'static G>) -> &'static Fiber {
    let Some(g) = g else { return &m.fiber };
    // SAFETY: every slot has memory for its block, and we own g.
    match unsafe { tls::block::fiber_of(g.slot.block) } {
        Some(fiber) => {
            fiber.set_stack(g.slot.stack());
            fiber
        }
        None => unreachable!("blocks have room for it if a sanitizer is active"),
    }
}
