//! Classifies the caller of a libc function: outside, in a marked call, in a handler, inside the runtime.
//! Signal handlers may wake futexes and close descriptors, and the code that one interrupts may hold the lock
//! of a bucket, or a lock of the scheduler.

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

use super::handlers;
use crate::arch;
use crate::sched::boot;
use crate::sched::machine::SCHED;
use crate::sched::run::runtime_section;
use crate::sched::types::current::current;
use crate::sched::types::g::G;
use crate::sys::thread;

thread_local! {
    /// This thread, which is foreign, holds the lock of a bucket.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, which takes locks of the table. Nothing stops the caller meanwhile, unless it is a foreign
/// thread that a signal handler of the program interrupts.
pub(super) fn uninterrupted<R>(f: impl FnOnce() -> R) -> R {
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
pub(super) enum Place {
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
    pub(super) fn own() -> Place {
        match current() {
            Some(g) if g.in_runtime.get() != 0 => Place::Inside,
            Some(g) if !is_user_code(g) => Place::Beside,
            Some(g) if g.blocking.get() => Place::Marked,
            Some(_) => Place::Outside,
            None if HOLDS.get() || handlers::may_be_on_thread() || is_runtimes(thread::tid()) => {
                Place::Inside
            }
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
/// whose housekeeper makes the wake-ups of signal handlers.
pub(super) fn is_free_thread() -> bool {
    current().is_none() && boot::has_started() && Place::own() == Place::Outside
}

/// Whether the caller, on the thread where `g` runs, is `g` itself and no signal handler. It runs on the
/// goroutine's own stack.
#[inline]
pub(super) fn is_user_code(g: &'static G) -> bool {
    g.slot.stack().contains(&arch::stack_pointer()) && !handlers::is_on_stack_of(g)
}
