//! Preemption: stopping a goroutine that does not stop by itself.
//!
//! First sysmon sets the P's `preempt` flag, which every runtime call and `gort::checkpoint()` checks. If
//! that does not help, it sends a signal. Usually the handler then copies the goroutine's registers to the
//! goroutine's own stack and switches to the scheduler (`interrupted.rs`): the goroutine is queued, needs
//! no thread, and any M can resume it. That is sound because what belongs to a thread in the eyes of a
//! program belongs to the goroutine here: its thread-locals and its id (`tls/block.rs`). A goroutine that
//! holds a lock is stopped as a thread would be that the kernel preempts.
//!
//! Where moving would be wrong, the goroutine keeps its thread:
//!
//! - K1. It runs code of the C library, where it may be changing malloc's cache, which is the thread's
//!   (`tls/malloc_cache.rs`); or code that the loader has called with its locks held, such as the resolver of
//!   an indirect function: without those locks no thread can be started. Such code is short: the goroutine
//!   runs on, and sysmon asks again soon. After [`PATIENCE`] such signals in a row it is stopped with its
//!   thread.
//! - K2. It is not on its own stack (a signal handler, a stack of another library), or there is no room, or
//!   the handler itself does not run on the M's signal stack.
//! - K3. The thread's signal mask or signal stack are not what all Ms have: the goroutine has changed them,
//!   or it runs a signal handler.
//! - K4. It is bound to its thread, runs on thread-locals other than its own, is inside `gort::blocking`, has
//!   the thread's id in its block (`block/thread_id.rs`), or is in a callback of `dl_iterate_phdr`, with the
//!   loader's lock (`block/thread_state.rs`).
//!
//! Then the handler gives the P to another M, queues the goroutine and waits right there, on the signal
//! stack, until another M takes the goroutine from the queue and hands this M a P, as for a goroutine bound
//! to its thread (`block/lock_os_thread.rs`). The price is a waiting thread.

use std::ffi::c_void;
use std::sync::atomic::compiler_fence;

use super::{interrupted, signal_handler};
use crate::arch::{self, SignalFrame};
use crate::base::atomic::Ordering;
use crate::netpoll;
use crate::sched::event;
use crate::sched::idle::start_m;
use crate::sched::idle::stop_m::wait_for_p;
use crate::sched::machine::SCHED;
use crate::sched::run::{child_first, runtime_section, schedule};
use crate::sched::types::g::thread_state::LOADER;
use crate::sched::types::g::{G, Switch};
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sched::word::status::Status;
use crate::sys::signal::ThreadSignals;
use crate::sys::{libc_code, signal, thread};
use crate::tls;

/// This many signals in a row may find a goroutine in the C library and leave it alone.
const PATIENCE: u8 = 8;
/// How far up the stack (bytes) the handler looks for a return into the loader. Resolvers are leaves, or
/// nearly: they run before their library is ready for calls to others. A stale word that looks like such a
/// return only makes the goroutine keep its thread.
const LOADER_DEPTH: usize = 4096;

/// Asks the goroutine that runs on `p` to stop at its next runtime call. If it was asked before and did not
/// stop, sends a signal. False: nothing new was done.
pub(crate) fn request(p: &'static P) -> bool {
    let asked_before = p.preempt.swap(true, Ordering::Relaxed);
    !asked_before || p.m().is_some_and(interrupt)
}

/// Sends the signal to `m`, unless one is under way. False: it was not sent.
pub(crate) fn interrupt(m: &'static M) -> bool {
    // A thread that sleeps in the kernel is not computing: sysmon takes its P without a signal, which might
    // make its system call fail.
    if !signal_handler::is_enabled()
        || m.in_user_code().is_none()
        || thread::is_asleep(m.tid()) == Some(true)
        || m.signalled.swap(true, Ordering::Relaxed)
    {
        return false;
    }
    let sent = signal_handler::send(m.tid());
    if !sent {
        m.signalled.store(false, Ordering::Relaxed);
    }
    sent
}

/// Called in the handler, on the thread of `m`, with the context from the kernel: stops its goroutine, if
/// that was requested and the goroutine runs user code. If the goroutine can be moved, this does not return.
pub(super) fn stop_if_asked(m: &'static M, context: *mut c_void) {
    if !m.signalled.swap(false, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the kernel passed the context to the handler that calls this.
    let frame = unsafe { SignalFrame::new(context) };
    // If it is inside the runtime, it will see the flag.
    let Some(g) = m.in_user_code().filter(|_| !frame.is_being_resumed()) else { return };
    g.in_runtime.set(1);
    compiler_fence(Ordering::SeqCst);
    if let Some(why) = reason_to_stop(m, g) {
        stop(m, g, why, frame, context);
    }
    compiler_fence(Ordering::SeqCst);
    g.in_runtime.set(0);
}

fn reason_to_stop(m: &'static M, g: &'static G) -> Option<Switch> {
    if m.p().is_none() && g.blocking.get() {
        return None;
    }
    if !m.has_p() {
        m.wait_for_detach();
    }
    match m.p() {
        // If the flag is clear, the goroutine that was to be stopped has stopped by itself.
        Some(p) => p.preempt.load(Ordering::Relaxed).then_some(Switch::Interrupted),
        // It computes without a P.
        None => {
            m.call.end();
            runtime_section::measure_own(m);
            Some(Switch::NeedP)
        }
    }
}

/// Stops `g`, which has been put inside the runtime. Returns when it is to go on.
fn stop(m: &'static M, g: &'static G, why: Switch, frame: SignalFrame, context: *mut c_void) {
    if may_move(m, g, frame) {
        if !libc_code::may_contain(frame.pc()) && !is_called_by_loader(g, frame) {
            m.missed.store(0, Ordering::Relaxed);
            // SAFETY: we are in the handler; it returns only if there is no room, and then nothing has
            // changed.
            unsafe { interrupted::leave(m, g, frame, why) };
        } else if m.missed.fetch_add(1, Ordering::Relaxed) < PATIENCE {
            return;
        }
    }
    m.missed.store(0, Ordering::Relaxed);
    // Before the goroutine is queued: a dump may take it from there.
    m.interrupted.store(context, Ordering::Relaxed);
    let stopped = match m.p() {
        Some(p) => give_away(m, g, p),
        None => Some(take_idle_or_queue(m, g)),
    };
    // If there is no M for its P, the goroutine goes on until there is one.
    if let Some(bound) = stopped {
        wait_in_handler(m, g, bound, context);
    }
    m.interrupted.store(std::ptr::null_mut(), Ordering::Relaxed);
}

/// Whether the goroutine can go on with another thread: K2 to K4.
fn may_move(m: &'static M, g: &'static G, frame: SignalFrame) -> bool {
    let seen = ThreadSignals { stack: frame.signal_stack(), blocked: frame.blocked_signals() };
    libc_code::is_known()
        && g.tp.get() != 0
        && g.tp.get() == arch::thread_pointer()
        && g.thread_state.get() & LOADER == 0
        && is_inside(seen.stack, arch::stack_pointer())
        && g.locked_m.get().is_none()
        && !g.blocking.get()
        && m.signals.get() == Some(seen)
        && g.slot.stack().contains(&frame.sp())
        // SAFETY: the goroutine runs on its block.
        && unsafe { tls::block::has_own_id(g.tp.get()) }
}

/// Whether a function that the loader has called may be running: see K1. The goroutine is on its own stack.
fn is_called_by_loader(g: &'static G, frame: SignalFrame) -> bool {
    let end = g.slot.stack().end.min(frame.sp() + LOADER_DEPTH);
    let words = (frame.sp().next_multiple_of(size_of::<usize>())..end).step_by(size_of::<usize>());
    // SAFETY: the words lie in the goroutine's stack, at and above its stack pointer, and it does not run.
    words.map(|at| unsafe { (at as *const usize).read_volatile() }).any(libc_code::is_of_loader)
}

fn is_inside((start, size): (usize, usize), address: usize) -> bool {
    (start..start + size).contains(&address)
}

/// Gives `p` to an M that waits for one, and queues the goroutine. `None`: no M could use the P, so the
/// goroutine goes on. Otherwise returns the M that the goroutine was bound to before, if any.
///
/// The receiver is an idle M, or the M of a goroutine that was stopped with its thread earlier: the latter
/// if no other goroutines wait. It is never an M that would have to be started first: the goroutine may
/// have been stopped inside the allocator, and starting a thread allocates.
fn give_away(m: &'static M, g: &'static G, p: &'static P) -> Option<Option<&'static M>> {
    let mut locked = SCHED.lock();
    let stays = !p.retired.load(Ordering::Relaxed);
    let only_hogs_wait = p.runq.is_empty()
        && locked.only_on_own_m()
        && !netpoll::has_waiters()
        && !SCHED.platform.forks.forks_wait();
    let needs_idle = !(stays && only_hogs_wait);
    let idle = if needs_idle { locked.take_near_idle_m() } else { None };
    if idle.is_none() {
        locked.prefer_near();
        if needs_idle {
            // For the next time. Otherwise goroutines with Ms of their own would pass the P among themselves.
            start_m::start_spare_m();
        }
    }
    let receiver = match idle {
        // A retired P needs an idle M, which gives it up.
        None if !stays => return None,
        None => locked.pop_on_own_m()?.locked_m.get()?,
        Some(idle) => idle,
    };
    let bound = g.locked_m.replace(Some(m));
    g.set_status(Status::Preempted);
    schedule::log_stop(m, g, Switch::Interrupted);
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
    schedule::log_stop(m, g, Switch::NeedP);
    match locked.take_idle_p() {
        Some(p) => SCHED.hand_p_to(m, p),
        None => locked.push_preempted(g),
    }
    bound
}

/// Waits until another thread hands the M a P.
fn wait_in_handler(m: &'static M, g: &'static G, bound: Option<&'static M>, context: *mut c_void) {
    // SAFETY: the kernel passed the context.
    unsafe { signal::let_others_through(signal::SIGURG, context, || wait_for_p(m)) };
    g.locked_m.set(bound);
    g.set_status(Status::Running);
    if event::is_on() {
        g.begins_to_run(m.log.started(g.id()));
    }
}

/// Stops the calling goroutine if it was asked to stop.
pub(crate) fn checkpoint() {
    drop(runtime_section::enter());
}
