//! The one M that waits for time and I/O when its P has nothing to do. It holds no P while it waits.
//!
//! `UNTIL` is the time the waiting M will wake up at by itself: 0 when nobody waits. Who starts an earlier timer
//! interrupts it. The poller publishes `UNTIL` first and looks at all timers after; who starts a timer publishes
//! the timer first and looks at `UNTIL` after: so one of them sees the other (all four SeqCst).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::glist::GList;
use super::global::{self, SLEEP};
use super::m::M;
use super::p::{self, P};
use super::status::Status;
use super::{sysmon, wake};
use crate::netpoll;
use crate::sys::clock::nanotime;
use crate::timer::{self, NEVER};

/// A wait is not shorter than this, in nanoseconds, and timers that are due meanwhile are served at once: to sleep and wake up for
/// each of thousands would cost more than all else. Linux gives its own sleepers the same slack.
const SHORTEST: u64 = 50_000;

/// The same where so many are due that to wake up every 50 µs would be a good part of the work.
const SHORTEST_OF_MANY: u64 = 250_000;

/// The same where hundreds are due in each millisecond. A wake-up costs some 50 µs of CPU time (the poller's, another M's and
/// sysmon's), as much as fifty sleeps: 100,000 sleepers used 6 % more with 250 µs.
const SHORTEST_OF_HUNDREDS: u64 = 750_000;

/// Then many are due within so much, of at least so many.
const HUNDREDS_WITHIN: u64 = 50_000;
const HUNDREDS: usize = 256;

/// A timer that is due later than this, in nanoseconds, needs nobody who waits for it now: much later than sysmon needs to see
/// that nobody does.
const FAR: u64 = 20_000_000;

static BUSY: AtomicBool = AtomicBool::new(false);
static UNTIL: AtomicU64 = AtomicU64::new(0);
/// Which of the shortest waits it is.
static SHORTEST_NOW: AtomicU64 = AtomicU64::new(SHORTEST);

/// A timer was started that fires at `when`.
#[inline]
pub(crate) fn new_deadline(when: u64) {
    let until = UNTIL.load(Ordering::SeqCst);
    if until != 0 && when < until {
        interrupt_before(until);
    }
}

#[cold]
fn interrupt_before(until: u64) {
    // If it wakes up as soon as it would after the interruption, it need not be interrupted.
    if until > nanotime().saturating_add(SHORTEST_NOW.load(Ordering::Relaxed)) {
        netpoll::interrupt();
    }
}

/// Whether an M waits for the timers. SeqCst: see `new_deadline`.
pub(crate) fn is_waiting() -> bool {
    UNTIL.load(Ordering::SeqCst) != 0
}

/// Whether many timers are due and the M that waits will soon serve them together: then others leave them to it. Each that looks
/// would find a few, and wake one more to look (100,000 sleepers: eight wake-ups of Ms instead of two each time, 5 % of the CPU time).
///
/// Nothing is lost: it looks at the timers at `UNTIL`. If it finds no idle P then, whoever left them to it has one, and passes by
/// `wait` before it stops.
pub(crate) fn serves_crowd() -> bool {
    let until = UNTIL.load(Ordering::SeqCst);
    until != 0 && SHORTEST_NOW.load(Ordering::Relaxed) != SHORTEST && {
        let now = nanotime();
        (now..=now + SHORTEST_OF_HUNDREDS).contains(&until)
    }
}

/// For an M without a P: waits for the next timer or for I/O, unless another M does so already. May come back with
/// a P.
pub(crate) fn wait(m: &'static M) {
    if timer::earliest() == NEVER && !netpoll::has_waiters() {
        return;
    }
    // SeqCst: see `ensure`.
    if BUSY.swap(true, Ordering::SeqCst) {
        // Its deadline may be later than a timer that was moved or that its P left behind.
        new_deadline(timer::earliest());
        return;
    }
    UNTIL.store(NEVER, Ordering::SeqCst);
    let first = timer::earliest();
    let now = nanotime();
    let shortest = shortest_wait(p::all, now);
    SHORTEST_NOW.store(shortest, Ordering::Relaxed);
    let until = first.max(now.saturating_add(shortest));
    UNTIL.store(until, Ordering::SeqCst);
    let ready = GList::new();
    if first > now {
        netpoll::wait((until != NEVER).then(|| until - now), &ready);
    }
    UNTIL.store(0, Ordering::SeqCst);
    BUSY.store(false, Ordering::SeqCst);
    take_p_for(m, &ready, until == NEVER || until > nanotime() + FAR);
}

/// How long to wait at least for the timers of these Ps.
pub(crate) fn shortest_wait<I: IntoIterator<Item = &'static P>>(ps: impl Fn() -> I, now: u64) -> u64 {
    let many_within = |nanos, of| ps().into_iter().any(|p| p.timers.many_are_due(now + nanos, of));
    if many_within(HUNDREDS_WITHIN, HUNDREDS) {
        SHORTEST_OF_HUNDREDS
    } else if many_within(SHORTEST_OF_MANY, 0) {
        SHORTEST_OF_MANY
    } else {
        SHORTEST
    }
}

/// For an M with a P that has nothing in its queues: takes what is ready by now, unless another M waits for
/// it. True: there is something in the queue.
pub(crate) fn poll(p: &'static P) -> bool {
    if !netpoll::has_waiters() || BUSY.load(Ordering::Relaxed) {
        return false;
    }
    let ready = GList::new();
    netpoll::wait(Some(0), &ready);
    let some = ready.len() != 0;
    wake::make_all_runnable_on(p, &ready);
    some
}

/// As [`poll`], by sysmon.
pub(crate) fn poll_without_p() {
    if netpoll::has_waiters() && !BUSY.load(Ordering::Relaxed) {
        let ready = GList::new();
        netpoll::wait(Some(0), &ready);
        make_runnable_anywhere(&ready);
    }
}

/// Whether an M waits here, or is about to.
pub(crate) fn is_busy() -> bool {
    BUSY.load(Ordering::Relaxed)
}

/// Puts a list into the global queue.
pub(crate) fn make_runnable_anywhere(ready: &GList) {
    if ready.len() != 0 {
        ready.for_each(|g| g.set_status(Status::Runnable));
        global::lock().push_list(ready);
        wake::wake_p();
    }
}

/// A foreign thread is about to wait for I/O, or a P became idle without its M coming by here: if nobody polls, and no
/// P is busy (whose M would before it stops), an M must start to.
///
/// Why that is enough: the caller registered its descriptor, or put the P into the idle list, before it looks at `BUSY`,
/// the idle Ps and the spinners here; an M that is about to stop puts its P into the idle list and stops
/// spinning before it looks at the registrations and timers in `wait`. All of these are SeqCst, so one of the two sees
/// the other. If `BUSY` was seen set, its M polls, or it left and passes by here again before it stops.
pub(crate) fn ensure() {
    if !BUSY.load(Ordering::SeqCst) && (netpoll::has_waiters() || timer::earliest() != NEVER) {
        wake::wake_p();
    }
}

/// Gives the M a P, if one is idle, and the goroutines to it; else to the global queue.
///
/// Normally the M then spins, and as it finds work another one is woken, which in the end polls in its place. For a single
/// goroutine, and when no timer is due soon (`alone`), that would be a thread woken for each request: then nobody polls
/// until this M is done with it, or sysmon finds after about a millisecond that it takes long.
fn take_p_for(m: &'static M, ready: &GList, alone: bool) {
    let mut state = global::lock();
    let Some(p) = state.take_idle_p() else {
        ready.for_each(|g| g.set_status(Status::Runnable));
        state.push_list(ready);
        drop(state);
        // All Ps are busy, and nobody polls any more.
        sysmon::look_soon();
        return;
    };
    drop(state);
    m.set_p(Some(p));
    if alone
        && ready.len() == 1
        && let Some(g) = ready.pop_front()
    {
        g.set_status(Status::Runnable);
        wake::put_next(p, g);
        return;
    }
    m.spinning.set(true);
    SLEEP.spin();
    wake::make_all_runnable_on(p, ready);
}
