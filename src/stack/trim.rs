//! Giving stack pages back: this is how a stack shrinks.
//!
//! A pass, about once a second, on the steward's thread:
//! - slots of ended goroutines that were in the shared cache since before the last pass keep only their top page;
//! - goroutines that have been parked since before the last pass keep only what is above their stack pointer.
//!   The park word's HELD state keeps such a goroutine where it is meanwhile; who readies it is served when the
//!   page is gone.

use std::sync::atomic::{AtomicU64, Ordering};

use super::cache;
use super::size::CLASSES;
use super::slab;
use crate::sched::g::G;
use crate::sched::hold;
use crate::sys::clock::nanotime;
use crate::sys::mem::{self, PAGE};

/// The time of the last pass, in nanoseconds of the monotonic clock; a goroutine notes it when it parks. Also a coarse
/// clock, for since when a goroutine waits: while goroutines run it is about a second behind at the most.
pub(crate) static PASS: AtomicU64 = AtomicU64::new(0);

/// Goroutines run again after all was idle, and no pass was made.
pub(crate) fn update_clock() {
    PASS.store(nanotime(), Ordering::Relaxed);
}

/// Whoever has been parked since an earlier time was shrunk, once.
static SHRUNK_BEFORE: AtomicU64 = AtomicU64::new(0);

static TRIMMED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Dead slots are unavailable while they are trimmed: take few at a time.
const BATCH: usize = 64;

/// Trims what has not been used since the last pass. Calls `between` again and again meanwhile.
pub(crate) fn pass(mut between: impl FnMut()) {
    let pass = PASS.swap(nanotime(), Ordering::Relaxed);
    // Who has been parked for longer was shrunk then.
    let parked_since = SHRUNK_BEFORE.swap(pass, Ordering::Relaxed)..pass;
    trim_dead(&mut between);
    let mut count = 0usize;
    slab::for_each_g(|g| {
        count += 1;
        if count.is_multiple_of(BATCH) {
            between();
        }
        if g.park.is_parked() && parked_since.contains(&g.parked_at.load(Ordering::Relaxed)) {
            shrink_parked(g);
        }
    });
}

/// How many bytes were given back so far, touched or not.
pub(crate) fn trimmed_bytes() -> u64 {
    TRIMMED_BYTES.load(Ordering::Relaxed)
}

fn trim_dead(between: &mut impl FnMut()) {
    for class in 0..CLASSES {
        loop {
            let batch = cache::take_unused(class, BATCH);
            if batch.len() == 0 {
                break;
            }
            batch.for_each(|g| discard_below(g, std::ptr::from_ref(g) as usize));
            cache::put_trimmed(class, &batch);
            between();
        }
        cache::begin_pass(class);
    }
}

fn shrink_parked(g: &'static G) {
    // What happens in a bubble depends on its seed, and not on us.
    if g.bubble.get() != 0 {
        return;
    }
    hold::while_held(g, || {
        // It may have parked on a stack that it made itself (the stacker crate does such things), and then all of this one
        // is in use.
        let stack_pointer = g.context.get();
        let on_own_stack = (g.slot_start()..std::ptr::from_ref(g) as usize).contains(&stack_pointer);
        if on_own_stack {
            discard_below(g, stack_pointer);
        }
    });
}

/// Discards the pages of the stack that lie entirely below `address`.
fn discard_below(g: &'static G, address: usize) {
    let start = g.slot_start() + PAGE;
    let end = address & !(PAGE - 1);
    if end > start {
        // SAFETY: we own the goroutine; below its stack pointer nothing is live, and the guard page is left out.
        unsafe { mem::discard(start, end - start) };
        TRIMMED_BYTES.fetch_add((end - start) as u64, Ordering::Relaxed);
    }
}
