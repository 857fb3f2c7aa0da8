//! Making goroutines runnable, and finding somebody to run them.
//!
//! Whoever makes work puts it where a thief or a P that looks around finds it, and then, if a P is idle and
//! nobody spins, wakes one M (`wake_p`). One is enough: a spinner that finds work wakes the next.

use std::ptr;

use super::find;
use super::g::G;
use super::glist::GList;
use super::global::{self, SLEEP};
use super::m::M;
use super::p::P;
use super::procs;
use super::runq::BATCH;
use super::section;
use super::status::Status;
use super::steward;
use crate::atomic::Ordering;

/// Makes a goroutine runnable whose park word said that it is the caller's.
#[inline]
pub(crate) fn make_runnable(g: &'static G) {
    g.set_status(Status::Runnable);
    match section::enter() {
        Some(section) => {
            put_next(section.p(), g);
            wake_p();
        }
        None => {
            global::lock().push(g);
            wake_p();
        }
    }
}

/// As [`make_runnable`], by an M on g0.
pub(crate) fn make_runnable_on(p: &'static P, g: &'static G) {
    g.set_status(Status::Runnable);
    put_next(p, g);
    wake_p();
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
            let list = GList::new();
            for g in &batch[..count] {
                // SAFETY: the queue holds pointers to Gs only, and these are ours now.
                list.push_back(unsafe { &**g });
            }
            list.push_back(g);
            p.stats.overflows.add(1);
            global::lock().push_list(&list);
            // Between the queues it could not be seen.
            wake_p();
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
    if SLEEP.should_wake() {
        wake_p_slow();
    }
}

/// `SLEEP` said that somebody should be woken.
#[cold]
pub(super) fn wake_p_slow() {
    if !SLEEP.claim() {
        return;
    }
    match SLEEP.p_for_spinner(take_crew, find::work_anywhere) {
        Some(Crew::Idle(m, p)) => {
            m.spinning.set(true);
            m.next_p.set(Some(p));
            m.note.set();
        }
        // The new M inherits our token, and looks for an idle P itself.
        Some(Crew::NoM) => steward::start_spinning_m(),
        None => {}
    }
}

/// Who can be sent to an idle P.
enum Crew {
    Idle(&'static M, &'static P),
    /// A P is idle, but no M.
    NoM,
}

fn take_crew() -> Option<Crew> {
    let state = global::lock();
    if !state.has_idle_p() {
        return None;
    }
    let Some(m) = state.take_idle_m() else { return Some(Crew::NoM) };
    state.take_idle_p().map(|p| Crew::Idle(m, p))
}

/// Finds an M for a P that its owner cannot use any longer (a locked goroutine stopped, or a call blocks).
pub(crate) fn hand_off_p(p: &'static P) {
    let has_work = || !p.runq.is_empty() || global::queue_len() != 0;
    if has_work() && give_to_idle_m(p) {
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
    if SLEEP.work_waits(find::work_anywhere) {
        wake_p();
    }
}

fn give_to_idle_m(p: &'static P) -> bool {
    let Some(m) = global::lock().take_idle_m() else {
        return false;
    };
    m.spinning.set(false);
    m.next_p.set(Some(p));
    m.note.set();
    true
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
