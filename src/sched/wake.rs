//! Making goroutines runnable, and finding somebody to run them.
//!
//! Whoever makes work puts it where a thief or a P that looks around finds it, and then, if a P is idle and
//! nobody spins, wakes one M (`wake_p`). One is enough: a spinner that finds work wakes the next.

use std::ptr;

use super::bubble;
use super::find;
use super::g::G;
use super::glist::GList;
use super::global::{self, SLEEP};
use super::m::M;
use super::p::P;
use super::poller;
use super::procs;
use super::runq::BATCH;
use super::section;
use super::status::Status;
use super::steward;
use super::sysmon;
use crate::atomic::{Ordering, fence};

/// Makes a goroutine runnable whose park word said that it is the caller's.
#[inline]
pub(crate) fn make_runnable(g: &'static G) {
    if g.bubble.get() != 0 {
        return bubble::ready(g);
    }
    match section::enter() {
        Some(section) => run_on(section.p(), g),
        None => make_runnable_globally(g),
    }
}

/// As [`make_runnable`], without a P.
pub(crate) fn make_runnable_globally(g: &'static G) {
    if g.bubble.get() != 0 {
        return bubble::ready_on(g, None);
    }
    run_globally(g);
}

/// As [`make_runnable_globally`], for a goroutine that has the turn of its bubble, if it is in one.
pub(crate) fn run_globally(g: &'static G) {
    g.set_status(Status::Runnable);
    global::lock().push(g);
    wake_p();
}

/// As [`run_globally`], on a P that the caller owns.
#[inline]
pub(crate) fn run_on(p: &'static P, g: &'static G) {
    g.set_status(Status::Runnable);
    put_next(p, g);
    if SLEEP.should_wake() {
        if !p.brisk.keeps(&p.runq) {
            wake_p_slow();
        }
    } else {
        tell_if_all_busy();
    }
}

/// As [`run_on`], for all of a list, in order, at the end of the ring.
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
            // On the way between the queues nobody could see them.
            wake_p();
            return;
        }
        if owner.try_put(ptr::from_ref(g).cast_mut()) {
            return;
        }
    }
}

/// As [`put_last`], for a goroutine that stopped while another took its place on the P: in between nobody could see
/// it, so somebody may have to be woken.
#[inline]
pub(crate) fn put_back(p: &'static P, g: &'static G) {
    put_last(p, g);
    if SLEEP.some_p_idle() {
        fence(Ordering::SeqCst);
        wake_p();
    }
}

/// Wakes an M for an idle P, unless somebody spins already. The work is in its queue.
#[inline]
pub(crate) fn wake_p() {
    if SLEEP.should_wake() {
        wake_p_slow();
    } else {
        tell_if_all_busy();
    }
}

/// Somebody has to wait, or somebody is on the way.
#[inline]
fn tell_if_all_busy() {
    if !SLEEP.some_p_idle() {
        sysmon::look_soon();
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
        Some(Crew::Starting) => steward::start_spinning_m(),
        Some(Crew::WaitedFor(p, g)) => {
            give_to_its_m(p, g);
            steward::start_spinning_m();
        }
        None => {}
    }
}

/// Who takes over the token, because a P is idle.
enum Crew {
    /// An idle M, which gets the P.
    Idle(&'static M, &'static P),
    /// A new M: it will look for an idle P itself.
    Starting,
    /// A new M too; and the P goes to a goroutine that needs no other M than its own.
    WaitedFor(&'static P, &'static G),
}

fn take_crew() -> Option<Crew> {
    let mut state = global::lock();
    if !state.has_idle_p() {
        return None;
    }
    if let Some(m) = state.take_idle_m() {
        return state.take_idle_p().map(|p| Crew::Idle(m, p));
    }
    match state.pop_waited_for() {
        Some(g) => state.take_idle_p().map(|p| Crew::WaitedFor(p, g)),
        None => Some(Crew::Starting),
    }
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
    if SLEEP.work_waits(find::work_anywhere) {
        wake_p();
    } else {
        poller::ensure();
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
    state.prefer_near();
    let Some(g) = state.pop_waited_for() else { return false };
    drop(state);
    // Whoever else is runnable needs an M that can be spared the next time.
    steward::start_spare_m();
    give_to_its_m(p, g);
    // For the next time: a goroutine that just gave its P up got it back.
    if SLEEP.claim() {
        steward::start_spinning_m();
    }
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
