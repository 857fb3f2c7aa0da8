//! Making goroutines runnable, and finding somebody to run them.
//!
//! Whoever makes work puts it where a thief or a P that looks around finds it, and then, if a P is idle and
//! nobody spins, wakes one M (`wake_p`). One is enough: a spinner that finds work wakes the next.

use std::ptr;

use super::find;
use super::g::G;
use super::glist::GList;
use super::global::{self, IDLE_PS, SPINNING};
use super::p::P;
use super::procs;
use super::runq::BATCH;
use super::section;
use super::status::Status;
use super::{poller, steward};
use crate::atomic::{Ordering, fence};
use crate::timer::{self, NEVER};

/// Makes a goroutine runnable whose park word said that it is the caller's.
#[inline]
pub(crate) fn make_runnable(g: &'static G) {
    g.set_status(Status::Runnable);
    match section::enter() {
        Some(section) => {
            put_next(section.p(), g);
            wake_p();
        }
        None => make_runnable_globally(g),
    }
}

/// As [`make_runnable`], without a P.
pub(crate) fn make_runnable_globally(g: &'static G) {
    g.set_status(Status::Runnable);
    global::lock().push(g);
    wake_p();
}

/// As [`make_runnable`], by an M on g0.
pub(crate) fn make_runnable_on(p: &'static P, g: &'static G) {
    g.set_status(Status::Runnable);
    put_next(p, g);
    wake_p();
}

/// As [`make_runnable_on`], for all of a list, in order.
pub(crate) fn make_all_runnable_on(p: &'static P, list: &GList) {
    let mut some = false;
    while let Some(g) = list.pop_front() {
        g.set_status(Status::Runnable);
        put_last(p, g);
        some = true;
    }
    if some {
        // Between the puts and the look at the idle Ps: see `put_last`.
        fence(Ordering::SeqCst);
        wake_p();
    }
}

/// Puts `g` into runnext; what was there goes to the end of the ring. The caller owns the P.
#[inline]
pub(crate) fn put_next(p: &'static P, g: &'static G) {
    // SAFETY: the caller owns the P (P1).
    let owner = unsafe { p.runq.owner() };
    let kicked = owner.put_next(ptr::from_ref(g).cast_mut());
    if !kicked.is_null() {
        // SAFETY: the queue holds pointers to Gs only.
        put_last(p, unsafe { &*kicked });
    }
}

/// Puts `g` at the end of the ring, or, if that is full, half of the ring and `g` into the global queue. Whoever
/// then calls `wake_p` for it needs a SeqCst fence between, unless a `put_next` came before.
#[inline]
pub(crate) fn put_last(p: &'static P, g: &'static G) {
    // SAFETY: the caller owns the P (P1).
    if !unsafe { p.runq.owner() }.try_put(ptr::from_ref(g).cast_mut()) {
        overflow(p, g);
    }
}

#[cold]
fn overflow(p: &'static P, g: &'static G) {
    // SAFETY: the caller owns the P.
    let owner = unsafe { p.runq.owner() };
    let mut batch = [ptr::null_mut(); BATCH];
    loop {
        if let Some(count) = owner.take_half_when_full(&mut batch) {
            batch[count] = ptr::from_ref(g).cast_mut();
            p.stats.overflows.add(1);
            // SAFETY: the queue holds pointers to Gs only, and these are ours now.
            unsafe { global::lock().push_batch(&batch[..=count]) };
            return;
        }
        if owner.try_put(ptr::from_ref(g).cast_mut()) {
            return;
        }
    }
}

/// Wakes an M for an idle P, unless somebody spins already. The work is in its queue.
#[inline]
pub(crate) fn wake_p() {
    // SeqCst: after the SeqCst put of the work, before the sleeper's check of the queues (README.md).
    if IDLE_PS.load(Ordering::SeqCst) != 0 && SPINNING.load(Ordering::SeqCst) == 0 {
        wake_p_slow();
    }
}

/// Gives up the right to spin without having looked for work, because there was no idle P. A P may have become idle
/// since, and its last owner may have relied on this spinner: so look once more.
pub(crate) fn stop_spinning_without_p() {
    SPINNING.fetch_sub(1, Ordering::SeqCst);
    if IDLE_PS.load(Ordering::SeqCst) != 0 && find::work_anywhere() {
        wake_p();
    }
}

#[cold]
fn wake_p_slow() {
    if SPINNING.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        return;
    }
    let mut state = global::lock();
    let Some(p) = state.take_idle_p() else {
        drop(state);
        stop_spinning_without_p();
        return;
    };
    let Some(m) = state.take_idle_m() else {
        let waited_for = state.pop_waited_for();
        if waited_for.is_none() {
            state.put_idle_p(p);
        }
        drop(state);
        if let Some(g) = waited_for {
            give_to_its_m(p, g);
        }
        // The new M inherits our right to spin, and looks for an idle P itself.
        steward::start_spinning_m();
        return;
    };
    drop(state);
    m.spinning.set(true);
    m.next_p.set(Some(p));
    m.note.set();
}

/// Finds an M for a P that its owner cannot use any longer (a locked goroutine stopped, or a call blocks).
///
/// If there is no M to spare, the P goes to a goroutine that a signal stopped, because its own M waits for it. This
/// is not only faster than a new M: the goroutine may have been stopped inside the allocator, and then all others that
/// allocate, the steward with its new M among them, wait for it.
pub(crate) fn hand_off_p(p: &'static P) {
    let has_work = || !p.runq.is_empty() || global::queue_len() + global::hogs_len() != 0;
    if has_work() && give_to_somebody(p) {
        return;
    }
    drain(p);
    let state = global::lock();
    if p.retired.load(Ordering::Relaxed) {
        drop(state);
        procs::leave(p);
        return;
    }
    state.put_idle_p(p);
    drop(state);
    // Work may have come while the P was neither idle nor looking; and if nobody waits for the timers, an M that finds
    // nothing to run must do so.
    let unattended_timers = timer::earliest() != NEVER && !poller::is_waiting();
    if global::queue_len() + global::hogs_len() != 0 || unattended_timers {
        wake_p();
    }
}

fn give_to_somebody(p: &'static P) -> bool {
    let mut state = global::lock();
    if let Some(m) = state.take_idle_m() {
        drop(state);
        m.spinning.set(false);
        m.next_p.set(Some(p));
        m.note.set();
        return true;
    }
    if p.retired.load(Ordering::Relaxed) {
        return false;
    }
    let Some(g) = state.pop_waited_for() else { return false };
    drop(state);
    // It may be the very goroutine that gave the P up, and would be again and again: whoever else is runnable needs
    // an M that can be spared the next time. The new M looks for an idle P, finds none, and waits.
    let wanted = !p.runq.is_empty() || global::queue_len() + global::hogs_len() != 0;
    if wanted && SPINNING.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
        steward::start_spinning_m();
    }
    give_to_its_m(p, g);
    true
}

/// Lets a goroutine go on whose own M waits for it.
fn give_to_its_m(p: &'static P, g: &'static G) {
    match g.locked_m.get() {
        Some(m) => {
            m.next_p.set(Some(p));
            m.note.set();
        }
        None => unreachable!("a goroutine that its M waits for has one"),
    }
}

/// Moves everything in the P's run queue to the global queue.
pub(crate) fn drain(p: &'static P) {
    // SAFETY: the caller owns the P.
    let owner = unsafe { p.runq.owner() };
    let list = GList::new();
    loop {
        let next = owner.take_next();
        let g = if next.is_null() { owner.take() } else { next };
        if g.is_null() {
            break;
        }
        // SAFETY: the queue holds pointers to Gs only, and this one is ours now.
        list.push_back(unsafe { &*g });
    }
    if list.len() != 0 {
        global::lock().push_list(&list);
    }
}
