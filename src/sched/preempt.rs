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
use super::{ask, first, global, pause, steward, wake};
use crate::atomic::Ordering;
use crate::netpoll;
use crate::sys::signal::{self, Previous};
use crate::sys::thread;

/// The signal. Harmless by default, and hardly used; what is not ours is passed on.
pub(crate) const SIGNAL: i32 = libc::SIGURG;

/// As many goroutines may be stopped in a handler at once.
pub(crate) static MAX_PREEMPTED: AtomicU32 = AtomicU32::new(256);

static ENABLED: AtomicBool = AtomicBool::new(false);
static STOPPED: AtomicU32 = AtomicU32::new(0);
static PREVIOUS: Previous = Previous::new();

/// Once, at start-up.
pub(crate) fn init(enabled: bool, max_stopped: Option<usize>) {
    if let Some(max) = max_stopped {
        MAX_PREEMPTED.store(u32::try_from(max).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
    ENABLED.store(enabled, Ordering::Relaxed);
    if enabled {
        signal::install(SIGNAL, on_signal, &PREVIOUS);
    }
}

/// Asks the goroutine that runs on `p` to stop at its next runtime call; if it did not since the last time, by signal. False:
/// nothing new was done.
pub(crate) fn request(p: &'static P) -> bool {
    let asked_before = p.preempt.swap(true, Ordering::Relaxed);
    !asked_before || p.m().is_some_and(interrupt)
}

/// Sends the signal to `m`, unless one is under way. False: it was not sent.
pub(crate) fn interrupt(m: &'static M) -> bool {
    let allowed = ENABLED.load(Ordering::Relaxed)
        && STOPPED.load(Ordering::Relaxed) < MAX_PREEMPTED.load(Ordering::Relaxed);
    // Who sleeps in the kernel is not computing: its P is taken without a signal, which might break its call off.
    if !allowed || m.in_runtime.get() != 0 || thread::is_asleep(m.tid()) == Some(true) {
        return false;
    }
    if global::lock().idle_m_count() == 0 {
        steward::start_spare_m();
    }
    if m.signalled.swap(true, Ordering::Relaxed) {
        return false;
    }
    // The program may have set a handler of its own after us: then ours goes before it.
    signal::install(SIGNAL, on_signal, &PREVIOUS);
    let sent = signal::send(m.tid(), SIGNAL, OURS);
    if !sent {
        m.signalled.store(false, Ordering::Relaxed);
    }
    sent
}

/// Asks the goroutine on `m` where it is (`ask.rs`). False: it cannot be asked.
pub(crate) fn send_question(m: &'static M, even_asleep: bool) -> bool {
    // A thread that sleeps in the kernel is in a system call, which the signal might break off.
    if !ENABLED.load(Ordering::Relaxed) || (!even_asleep && thread::is_asleep(m.tid()).unwrap_or(true)) {
        return false;
    }
    signal::install(SIGNAL, on_signal, &PREVIOUS);
    signal::send(m.tid(), SIGNAL, OURS)
}

/// Sees to it that our handler gets the signals. False: signals are not to be used.
pub(crate) fn can_signal() -> bool {
    if !ENABLED.load(Ordering::Relaxed) {
        return false;
    }
    signal::install(SIGNAL, on_signal, &PREVIOUS);
    true
}

/// The value of our signals: anybody else's are passed on.
pub(crate) const OURS: usize = 0x676f_7274;

/// What is to be done does not depend on the signal's value: of several signals that come before the first is handled the
/// kernel keeps one, and it may be anybody's.
extern "C" fn on_signal(number: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    pause::wait_if_asked(context);
    let tid = thread::tid();
    if let Some(m) = m::all().find(|m| m.tid() == tid && m.alive.load(Ordering::Relaxed)) {
        ask::answer(m, context);
        if m.signalled.swap(false, Ordering::Relaxed) {
            m.interrupted.store(context, Ordering::Relaxed);
            stop_here(m, context);
            m.interrupted.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
    }
    if signal::sent_value(info) == Some(OURS) {
        // sysmon and the reports look first whether the thread sleeps, but it may have just begun to.
        // SAFETY: the kernel passed the context.
        unsafe { signal::restart_call(context, true) };
    } else {
        pass_on(number, info, context);
    }
}

/// The thread that last passed a signal on.
static PASSING: AtomicU32 = AtomicU32::new(0);

/// Gives somebody else's signal to the handler that was there before ours. That one may have found ours when it was installed, and
/// pass the signal on, too: back to us. Then it has been passed on. (If another thread did so in between, that is noticed one
/// round later.)
fn pass_on(number: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let tid = thread::tid();
    if PASSING.swap(tid, Ordering::Relaxed) != tid {
        PREVIOUS.call(number, info, context);
        PASSING.store(0, Ordering::Relaxed);
    }
}

/// In the handler, on the thread of `m`, with what the kernel passed to it: stops its goroutine, if it runs user code.
fn stop_here(m: &'static M, context: *const c_void) {
    if m.in_runtime.get() != 0 {
        return; // it will see the flag
    }
    m.in_runtime.set(1);
    compiler_fence(Ordering::SeqCst);
    if let Some(g) = m.current()
        && (m.p().is_some() || !g.blocking.get())
    {
        if !m.has_p() {
            // sysmon may be about to give it back.
            m.detaching.lock();
            m.detaching.unlock();
        }
        let stopped = match m.p() {
            // Whoever ran here when the signal was sent may have stopped by itself, which answers the request.
            Some(p) if p.preempt.load(Ordering::Relaxed) => give_away(m, g, p),
            Some(_) => None,
            // It computes without a P.
            None => Some(take_idle_or_queue(m, g)),
        };
        if let Some(bound) = stopped {
            wait_for_p(m, g, bound, context);
        }
    }
    compiler_fence(Ordering::SeqCst);
    m.in_runtime.set(0);
}

/// Gives `p` to an M that waits for one, and queues the goroutine. `None`: nobody could use the P, so the goroutine goes
/// on. Otherwise what it was bound to before.
///
/// The receiver is an idle M (sysmon sees to it that there is one), or the M of a goroutine that was stopped earlier, at once if
/// nobody else has to be looked after. Never one that would have to be started first: the goroutine may have been stopped inside the allocator, and starting a thread
/// allocates.
fn give_away(m: &'static M, g: &'static G, p: &'static P) -> Option<Option<&'static M>> {
    let mut state = global::lock();
    let stays = !p.retired.load(Ordering::Relaxed);
    let only_hogs_wait = p.runq.is_empty() && state.only_waited_for() && !netpoll::has_waiters();
    let idle = if stays && only_hogs_wait { None } else { state.take_near_idle_m() };
    if idle.is_none() {
        state.prefer_near();
    }
    let receiver = match idle {
        // A P that is to go needs an M that lets it go.
        None if !stays => return None,
        None => state.pop_waited_for()?.locked_m.get()?,
        Some(idle) => idle,
    };
    let bound = g.locked_m.replace(Some(m));
    g.set_status(Status::Preempted);
    m.set_p(None);
    state.push_hog(g);
    drop(state);
    p.stats.preempted_by_signal.add(1);
    first::was_kept_waiting(p);
    p.answer_preempt();
    // The receiver may not come to look at it.
    p.sampler.forget();
    receiver.next_p.set(Some(p));
    receiver.note.set();
    // The receiver may go on with another goroutine.
    wake::wake_p();
    Some(bound)
}

/// An idle P will do for a goroutine that has none; else it is queued.
fn take_idle_or_queue(m: &'static M, g: &'static G) -> Option<&'static M> {
    let mut state = global::lock();
    let bound = g.locked_m.replace(Some(m));
    g.set_status(Status::Preempted);
    match state.take_idle_p() {
        Some(p) => {
            m.next_p.set(Some(p));
            m.note.set();
        }
        None => state.push_hog(g),
    }
    bound
}

/// Waits until somebody hands the M a P.
fn wait_for_p(m: &'static M, g: &'static G, bound: Option<&'static M>, context: *const c_void) {
    STOPPED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel passed the context.
    unsafe { signal::let_others_through(SIGNAL, context, || m.wait_for_p()) };
    STOPPED.fetch_sub(1, Ordering::Relaxed);
    g.locked_m.set(bound);
    g.set_status(Status::Running);
}

/// Lets a pending request take effect.
pub(crate) fn checkpoint() {
    drop(super::section::enter());
}
