//! Preemption: stopping a goroutine that does not stop by itself.
//!
//! First sysmon sets the P's `preempt` flag, which every runtime call and `gort::checkpoint()` checks. If
//! that does not help, it sends a signal. The handler gives the P to another M, queues the goroutine and
//! waits right there, on the alternate stack, until another M takes the goroutine from the queue and hands
//! this M a P, as for a goroutine bound to its thread (`block/lock_os_thread.rs`). The goroutine never leaves
//! its thread in the middle of arbitrary code, so the locks that it holds (malloc's, libc's, the user's) are
//! as safe as under the kernel's own preemption. The price is a waiting thread for each goroutine that is
//! stopped this way. While `max_stopped` are, no further one is interrupted.
//!
//! Rejected: moving the goroutine's registers to another thread (as Go does at safe points). Rust code has no
//! safe points: it may be inside malloc, or hold a raw thread pointer.

use std::ffi::c_void;
use std::sync::atomic::compiler_fence;

use super::signal_handler;
use crate::base::atomic::Ordering;
use crate::netpoll;
use crate::sched::idle::start_m;
use crate::sched::idle::stop_m::wait_for_p;
use crate::sched::machine::SCHED;
use crate::sched::run::{child_first, runtime_section};
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sched::types::status::Status;
use crate::sys::{signal, thread};

/// Asks the goroutine that runs on `p` to stop at its next runtime call. If it was asked before and did not
/// stop, sends a signal. False: nothing new was done.
pub(crate) fn request(p: &'static P) -> bool {
    let asked_before = p.preempt.swap(true, Ordering::Relaxed);
    !asked_before || p.m().is_some_and(interrupt)
}

/// Sends the signal to `m`, unless one is under way. False: it was not sent.
pub(crate) fn interrupt(m: &'static M) -> bool {
    let preempt = &SCHED.platform.preempt;
    let allowed = signal_handler::is_enabled()
        && preempt.stopped.load(Ordering::Relaxed) < preempt.max_stopped.load(Ordering::Relaxed);
    // A thread that sleeps in the kernel is not computing: sysmon takes its P without a signal, which might
    // make its system call fail.
    if !allowed || m.in_runtime.get() != 0 || thread::is_asleep(m.tid()) == Some(true) {
        return false;
    }
    if SCHED.lock().idle_m_count() == 0 {
        start_m::start_spare_m();
    }
    if m.signalled.swap(true, Ordering::Relaxed) {
        return false;
    }
    let sent = signal_handler::send(m.tid());
    if !sent {
        m.signalled.store(false, Ordering::Relaxed);
    }
    sent
}

/// Called in the handler, on the thread of `m`, with the context from the kernel: stops its goroutine, if
/// that was requested and the goroutine runs user code.
pub(super) fn stop_if_asked(m: &'static M, context: *mut c_void) {
    if m.signalled.swap(false, Ordering::Relaxed) {
        m.interrupted.store(context, Ordering::Relaxed);
        stop_here(m, context);
        m.interrupted.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

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
            m.wait_for_detach();
        }
        let stopped = match m.p() {
            // If the flag is clear, the goroutine that was to be stopped has stopped by itself.
            Some(p) if p.preempt.load(Ordering::Relaxed) => give_away(m, g, p),
            Some(_) => None,
            // It computes without a P.
            None => Some(take_idle_or_queue(m, g)),
        };
        if let Some(bound) = stopped {
            wait_in_handler(m, g, bound, context);
        }
    }
    compiler_fence(Ordering::SeqCst);
    m.in_runtime.set(0);
}

/// Gives `p` to an M that waits for one, and queues the goroutine. `None`: no M could use the P, so the
/// goroutine goes on. Otherwise returns the M that the goroutine was bound to before, if any.
///
/// The receiver is an idle M (sysmon asks for one before it sends the signal), or the M of a goroutine that
/// was stopped earlier: the latter if no other goroutines wait. It is never an M that would have to be
/// started first: the goroutine may have been stopped inside the allocator, and starting a thread allocates.
fn give_away(m: &'static M, g: &'static G, p: &'static P) -> Option<Option<&'static M>> {
    let mut locked = SCHED.lock();
    let stays = !p.retired.load(Ordering::Relaxed);
    let only_hogs_wait = p.runq.is_empty() && locked.only_on_own_m() && !netpoll::has_waiters();
    let idle = if stays && only_hogs_wait { None } else { locked.take_near_idle_m() };
    if idle.is_none() {
        locked.prefer_near();
    }
    let receiver = match idle {
        // A retired P needs an idle M, which gives it up.
        None if !stays => return None,
        None => locked.pop_on_own_m()?.locked_m.get()?,
        Some(idle) => idle,
    };
    let bound = g.locked_m.replace(Some(m));
    g.set_status(Status::Preempted);
    m.set_p(None);
    locked.push_preempted(g);
    drop(locked);
    p.stats.preempted_by_signal.add(1);
    child_first::was_kept_waiting(p);
    p.answer_preempt();
    // The receiver may go on with its goroutine and skip a tick.
    p.sampler.forget();
    SCHED.hand_p_to(receiver, p);
    // The receiver may go on with its own goroutine, and then no M looks at the queues.
    SCHED.wake_p();
    Some(bound)
}

/// For a goroutine without a P: takes an idle P for it, or queues it. Returns the M that it was bound to
/// before, if any.
fn take_idle_or_queue(m: &'static M, g: &'static G) -> Option<&'static M> {
    let mut locked = SCHED.lock();
    let bound = g.locked_m.replace(Some(m));
    g.set_status(Status::Preempted);
    match locked.take_idle_p() {
        Some(p) => SCHED.hand_p_to(m, p),
        None => locked.push_preempted(g),
    }
    bound
}

/// Waits until another thread hands the M a P.
fn wait_in_handler(m: &'static M, g: &'static G, bound: Option<&'static M>, context: *const c_void) {
    let stopped = &SCHED.platform.preempt.stopped;
    stopped.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel passed the context.
    unsafe { signal::let_others_through(signal::SIGURG, context, || wait_for_p(m)) };
    stopped.fetch_sub(1, Ordering::Relaxed);
    g.locked_m.set(bound);
    g.set_status(Status::Running);
}

/// Stops the calling goroutine if it was asked to stop.
pub(crate) fn checkpoint() {
    drop(runtime_section::enter());
}
