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
use super::{find, sysmon, wake};
use crate::netpoll;
use crate::sys::clock::nanotime;
use crate::timer::{self, NEVER};

/// The poller waits at least this long (ns), even for a timer that is due earlier, and serves all timers that become due
/// meanwhile together: to sleep and wake up for each of thousands costs more than all else. Linux gives its own sleepers
/// the same slack.
const SLACK: u64 = 50_000;

/// The same (ns) where many timers are due: to wake up every 50 µs would be a good part of the work.
const SLACK_OF_MANY: u64 = 250_000;

/// A timer that is due later than this, in nanoseconds, needs nobody who waits for it now: much later than sysmon needs to see
/// that nobody does.
const FAR: u64 = 20_000_000;

static BUSY: AtomicBool = AtomicBool::new(false);
static UNTIL: AtomicU64 = AtomicU64::new(0);
/// The slack of the current wait.
static SLACK_NOW: AtomicU64 = AtomicU64::new(SLACK);

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
    if until > nanotime().saturating_add(SLACK_NOW.load(Ordering::Relaxed)) {
        netpoll::interrupt();
    }
}

/// Whether an M waits for the timers. SeqCst: see `new_deadline`.
pub(crate) fn is_waiting() -> bool {
    UNTIL.load(Ordering::SeqCst) != 0
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
    let slack = slack(p::all(), now);
    SLACK_NOW.store(slack, Ordering::Relaxed);
    let until = first.max(now.saturating_add(slack));
    UNTIL.store(until, Ordering::SeqCst);
    let ready = GList::new();
    if first > now {
        netpoll::wait((until != NEVER).then(|| until - now), &ready);
    }
    UNTIL.store(0, Ordering::SeqCst);
    BUSY.store(false, Ordering::SeqCst);
    take_p_for(m, &ready, until == NEVER || until > nanotime() + FAR);
}

/// How long to wait at least for the timers of these Ps (ns).
pub(crate) fn slack<I: IntoIterator<Item = &'static P>>(ps: I, now: u64) -> u64 {
    let many = ps.into_iter().any(|p| p.timers.many_are_due(now + SLACK_OF_MANY));
    if many { SLACK_OF_MANY } else { SLACK }
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

/// No thread can be started for what `ensure` or `wake_p` wanted, and a polling M cannot be handed a P: poll now, and
/// interrupt the poller if work is queued.
pub(crate) fn run_without_new_thread() {
    poll_without_p();
    if SLEEP.work_waits(find::work_anywhere) && is_busy() {
        netpoll::interrupt();
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
