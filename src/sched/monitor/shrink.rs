//! Shrinking stacks: giving unused stack pages back to the kernel.
//!
//! The housekeeper makes a pass about once a second. In a pass:
//! - slots of ended goroutines that were in the shared cache, or in that of an idle P, since before the last
//!   pass keep only their top page; a busy P gives what it does not use to the shared cache itself, at its
//!   rare ticks (`run/find_runnable.rs`);
//! - goroutines that have been parked since before the last pass keep only what is above their stack pointer.
//!   Meanwhile the park word's state HELD keeps such a goroutine parked; if a waker readies it, it becomes
//!   runnable when the pages are gone.

use std::sync::atomic::Ordering;

use crate::sched::machine::SCHED;
use crate::sched::park::hold_parked;
use crate::sched::types::g::G;
use crate::stack::cache::{self, Unused};
use crate::sys::clock::nanotime;

/// Shrinks stacks, and remembers which parked goroutines have been shrunk already.
pub(super) struct Shrinker {
    /// Goroutines that parked before this time (ns) have been shrunk already.
    shrunk_before: u64,
    /// Room for the slots of an idle P; empty between passes.
    unused: Unused,
}

impl Shrinker {
    pub(super) fn new() -> Shrinker {
        Shrinker { shrunk_before: 0, unused: Unused::new() }
    }

    /// Gives back stack pages that have not been used since the last pass.
    pub(super) fn pass(&mut self) {
        let last_pass = SCHED.platform.coarse_clock.swap(nanotime(), Ordering::Relaxed);
        let parked_since = std::mem::replace(&mut self.shrunk_before, last_pass)..last_pass;
        cache::trim_unused();
        let ended = cache::end_epoch();
        while self.take_from_idle_p(ended) {
            self.unused.trim();
        }
        G::for_each(|g| {
            if g.park.is_parked() && parked_since.contains(&g.parked_at.load(Ordering::Relaxed)) {
                shrink_parked(g);
            }
        });
    }

    /// Takes the slots of an idle P that has not used them for an epoch. False: no P has any.
    fn take_from_idle_p(&mut self, ended: u32) -> bool {
        let locked = SCHED.lock();
        // SAFETY: an idle P belongs to the holder of the lock.
        locked.idle_ps().any(|p| unsafe { p.with_slots(|slots| slots.take_unused(&mut self.unused, ended)) })
    }
}

fn shrink_parked(g: &'static G) {
    // What happens in a bubble must depend on its seed alone.
    if g.bubble.get() != 0 {
        return;
    }
    hold_parked::while_held(g, || {
        // It may have parked on a stack that it allocated itself (as the stacker crate does). Then all of
        // this stack is in use.
        let stack_pointer = g.context.get();
        let on_own_stack = (g.slot.start()..g.slot.header()).contains(&stack_pointer);
        if on_own_stack {
            // SAFETY: we hold the goroutine, and below its stack pointer nothing is live.
            unsafe { g.slot.discard_below(stack_pointer) };
        }
    });
}
