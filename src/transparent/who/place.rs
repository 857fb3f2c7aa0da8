//! Classifies the caller of a libc function: outside, in a marked call, in a handler, inside the runtime.
//! Signal handlers may wake futexes and close descriptors, and the code that one interrupts may hold the lock
//! of a bucket, or a lock of the scheduler.

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

use super::{enabled, handlers};
use crate::arch;
use crate::sched::block::thread_state::mask_changes;
use crate::sched::boot;
use crate::sched::machine::SCHED;
use crate::sched::run::runtime_section;
use crate::sched::types::current::current;
use crate::sched::types::g::G;
use crate::sys::{signal, thread};

thread_local! {
    /// This thread, which is foreign, holds the lock of a bucket.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
    /// The signals that this thread, which is foreign, blocks outside of handlers, and how often its mask had
    /// been changed by then.
    static USUALLY_BLOCKED: Cell<Option<(u64, u32)>> = const { Cell::new(None) };
    /// The process, and the thread's id there: a child of fork is another thread.
    static ID: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// The signals that the calling thread, which is foreign, blocks outside of handlers, if that is known.
fn usually_blocked() -> Option<u64> {
    USUALLY_BLOCKED.get().filter(|&(_, changes)| changes == mask_changes()).map(|(blocked, _)| blocked)
}

/// Called by a foreign thread that is in no handler.
fn learn_usually_blocked() {
    if usually_blocked().is_none() {
        USUALLY_BLOCKED.set(Some((signal::blocked(), mask_changes())));
    }
}

/// The kernel's id of the calling thread, which is foreign.
fn own_id() -> u32 {
    let process = enabled::process();
    match ID.get() {
        (known, tid) if known == process => tid,
        _ => {
            let tid = thread::tid();
            ID.set((process, tid));
            tid
        }
    }
}

/// Runs `f`, which takes locks of the table. Nothing stops the caller meanwhile, unless it is a foreign
/// thread that a signal handler of the program interrupts.
pub(in crate::transparent) fn uninterrupted<R>(f: impl FnOnce() -> R) -> R {
    match current() {
        Some(g) => runtime_section::on_own_m(g, |_| f()),
        None => {
            HOLDS.set(true);
            compiler_fence(Ordering::SeqCst);
            let result = f();
            compiler_fence(Ordering::SeqCst);
            HOLDS.set(false);
            result
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::transparent) enum Place {
    /// Outside: it may do what user code does.
    Outside,
    /// A goroutine in a marked call: it has no P.
    Marked,
    /// A signal handler that interrupted user code of a goroutine: it must not act as the goroutine.
    Beside,
    /// Inside, or in the handler of a signal that may have come there: it may hold locks.
    Inside,
}

impl Place {
    /// That of the caller.
    pub(in crate::transparent) fn own() -> Place {
        match current() {
            Some(g) if g.in_runtime.get() != 0 => Place::Inside,
            Some(g) if !is_user_code(g) => Place::Beside,
            Some(g) if g.blocking.get() => Place::Marked,
            Some(_) => Place::Outside,
            None if HOLDS.get() || is_runtimes(own_id()) => Place::Inside,
            None if handlers::may_be_on_thread(usually_blocked()) => Place::Inside,
            None => Place::Outside,
        }
    }
}

/// Whether it is the thread of an M, or one that serves the runtime.
fn is_runtimes(tid: u32) -> bool {
    let machine = &SCHED.platform;
    machine.m_of_thread(tid).is_some() || machine.is_service_thread(tid)
}

/// Whether the caller is a thread, on which no goroutine runs, that may wait in the table: the runtime runs,
/// whose housekeeper makes the wake-ups of signal handlers. Handlers do not wait on futexes.
pub(in crate::transparent) fn waits_as_thread() -> bool {
    let free = current().is_none() && boot::has_started() && !HOLDS.get() && !is_runtimes(own_id());
    if free {
        learn_usually_blocked();
    }
    free
}

/// Whether the caller, on the thread where `g` runs, is `g` itself and no signal handler. It runs on the
/// goroutine's own stack.
#[inline]
pub(in crate::transparent) fn is_user_code(g: &'static G) -> bool {
    g.slot.stack().contains(&arch::stack_pointer()) && !handlers::is_on_stack_of(g)
}
