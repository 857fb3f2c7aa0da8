//! Stopping a goroutine that does not stop by itself.
//!
//! First the P's `preempt` flag: every runtime call and `gort::checkpoint()` looks at it. If that does not help, a
//! signal. Its handler gives the P to another M, queues the goroutine and waits right there, on the alternate stack,
//! until a scheduler hands its M a P again, as it does for a goroutine bound to its thread (`locked.rs`). The goroutine
//! never leaves its thread in the middle of arbitrary code, so whatever locks it holds (malloc's, libc's, the user's)
//! are as safe as under the kernel's own preemption. The price is a waiting thread for each goroutine stopped so;
//! beyond `MAX_PREEMPTED` hogs are no longer interrupted.
//!
//! Rejected: moving the goroutine's registers to another thread (as Go does at safe points). Rust code has no safe
//! points: it may be inside malloc, or hold a raw thread pointer.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, compiler_fence};

use super::g::G;
use super::m::{self, M};
use super::p::P;
use super::status::Status;
use super::{global, wake};
use crate::atomic::Ordering;
use crate::sys::signal::{self, Previous};

/// The signal. Harmless by default, and hardly used; what is not ours is passed on.
const SIGNAL: i32 = libc::SIGURG;

/// As many goroutines may be stopped in a handler at once.
pub(crate) static MAX_PREEMPTED: AtomicU32 = AtomicU32::new(256);

static ENABLED: AtomicBool = AtomicBool::new(false);
static STOPPED: AtomicU32 = AtomicU32::new(0);
static PREVIOUS: Previous = Previous::new();

/// Once, at start-up.
pub(crate) fn init(enabled: bool) {
    ENABLED.store(enabled, Ordering::Relaxed);
    if enabled {
        signal::install(SIGNAL, on_signal, &PREVIOUS);
    }
}

/// Asks the goroutine that runs on `p` to stop at its next runtime call; if it did not since the last time, by signal.
pub(crate) fn request(p: &'static P) {
    let asked_before = p.preempt.swap(true, Ordering::Relaxed);
    if asked_before && let Some(m) = p.m() {
        interrupt(m);
    }
}

/// Sends the signal to `m`, unless one is under way.
pub(crate) fn interrupt(m: &'static M) {
    let allowed = ENABLED.load(Ordering::Relaxed)
        && STOPPED.load(Ordering::Relaxed) < MAX_PREEMPTED.load(Ordering::Relaxed);
    if allowed && m.in_runtime.get() == 0 && !m.signalled.swap(true, Ordering::Relaxed) {
        // The program may have set a handler of its own after us: then ours goes before it.
        signal::install(SIGNAL, on_signal, &PREVIOUS);
        if !signal::send(m.tid(), SIGNAL, std::ptr::from_ref(m) as usize) {
            m.signalled.store(false, Ordering::Relaxed);
        }
    }
}

extern "C" fn on_signal(number: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let value = signal::sent_value(info);
    match value.and_then(|value| m::all().find(|m| std::ptr::from_ref(*m) as usize == value)) {
        Some(m) => {
            m.signalled.store(false, Ordering::Relaxed);
            stop_here(m);
        }
        None => {
            PREVIOUS.call(number, info, context);
        }
    }
}

/// In the handler, on the thread of `m`: stops its goroutine, if it runs user code.
fn stop_here(m: &'static M) {
    if m.in_runtime.get() != 0 {
        return; // it will see the flag
    }
    m.in_runtime.set(1);
    compiler_fence(Ordering::SeqCst);
    if let Some(g) = m.current()
        && (m.p().is_some() || !g.blocking.get())
    {
        if m.p().is_none() {
            // sysmon may be about to give it back.
            m.detaching.lock();
            m.detaching.unlock();
        }
        match m.p() {
            Some(p) => {
                p.stats.preempted_by_signal.add(1);
                p.preempt.store(false, Ordering::Relaxed);
                wait_for_p(m, g, Some(p));
            }
            // It computes without a P. One that is idle will do.
            None => wait_for_p(m, g, None),
        }
    }
    compiler_fence(Ordering::SeqCst);
    m.in_runtime.set(0);
}

/// Gives `p` away and waits until somebody hands the M a P.
fn wait_for_p(m: &'static M, g: &'static G, p: Option<&'static P>) {
    let bound = g.locked_m.replace(Some(m));
    g.set_status(Status::Preempted);
    STOPPED.fetch_add(1, Ordering::Relaxed);
    m.set_p(None);
    let mut state = global::lock();
    let idle = if p.is_none() { state.take_idle_p() } else { None };
    if idle.is_none() {
        state.push_hog(g);
    }
    drop(state);
    if let Some(p) = p {
        wake::hand_off_p(p);
    }
    let p = idle.or_else(|| {
        m.note.wait();
        m.next_p.take()
    });
    m.set_p(p);
    if let Some(p) = p {
        // A new slice.
        p.tick.store(p.tick.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        p.preempt.store(false, Ordering::Relaxed);
    }
    STOPPED.fetch_sub(1, Ordering::Relaxed);
    g.locked_m.set(bound);
    g.set_status(Status::Running);
}

/// Lets a pending request take effect.
pub(crate) fn checkpoint() {
    drop(super::section::enter());
}
