//! The Ms that wait for time and I/O when their Ps have nothing to do, one in each watch. They hold no P while they wait.
//!
//! One of them keeps the time (`keeper.rs`): who comes to wait takes that part if nobody has it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::glist::GList;
use super::global::{self, PROCS, SLEEP};
use super::keeper::Keeper;
use super::m::M;
use super::p::{self, P};
use super::status::Status;
use super::{find, sysmon, wake};
use crate::netpoll::{self, Watch, watch};
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

static KEEPER: Keeper = Keeper::new(AtomicU64::new(0), AtomicUsize::new(0));
/// Which of the shortest waits it is.
static SHORTEST_NOW: AtomicU64 = AtomicU64::new(SHORTEST);

/// A timer was started that fires at `when`.
#[inline]
pub(crate) fn new_deadline(when: u64) {
    let until = KEEPER.until();
    if until != 0 && when < until {
        interrupt_before(until);
    }
}

#[cold]
fn interrupt_before(until: u64) {
    // If it wakes up as soon as it would after the interruption, it need not be interrupted.
    if until > nanotime().saturating_add(SHORTEST_NOW.load(Ordering::Relaxed)) {
        watch::at(KEEPER.place()).interrupt();
    }
}

/// Whether an M waits for the timers.
pub(crate) fn is_waiting() -> bool {
    KEEPER.until() != 0
}

/// Whether many timers are due and the M that waits will soon serve them together: then others leave them to it. Each that looks
/// would find a few, and wake one more to look (100,000 sleepers: eight wake-ups of Ms instead of two each time, 5 % of the CPU time).
///
/// Nothing is lost: it looks at the timers when it wakes up. If it finds no idle P then, whoever left them to it has one, and passes by
/// `wait` before it stops.
pub(crate) fn serves_crowd() -> bool {
    let until = KEEPER.until();
    until != 0 && SHORTEST_NOW.load(Ordering::Relaxed) != SHORTEST && {
        let now = nanotime();
        (now..=now + SHORTEST_OF_HUNDREDS).contains(&until)
    }
}

/// For an M without a P: waits for the next timer or for I/O, unless others do so already. May come back with a P.
pub(crate) fn wait(m: &'static M) {
    let Some(watch) = claim() else {
        // The keeper's deadline may be later than a timer that was moved or that its P left behind.
        new_deadline(timer::earliest());
        return;
    };
    if SLEEP.idle() >= PROCS.load(Ordering::SeqCst) {
        // Nobody else may come by.
        ensure_attended();
    }
    let ready = GList::new();
    if KEEPER.begin(watch.index()) {
        keep_time(watch, &ready);
    } else {
        new_deadline(timer::earliest());
        // Who came for the time's sake only is not needed.
        if watch.has_descriptors() {
            netpoll::wait(watch, None, &ready);
        }
    }
    watch.leave();
    take_p_for(m, &ready, is_waiting() || timer::earliest() > nanotime() + FAR);
}

/// Where to wait: for descriptors, best for those of this CPU, or just for the time.
fn claim() -> Option<&'static Watch> {
    let first = timer::earliest();
    if first == NEVER && !netpoll::has_waiters() {
        return None;
    }
    watch::all().find(|watch| watch.has_descriptors() && watch.attend()).or_else(|| {
        let wanted = first != NEVER && !is_waiting();
        watch::all().find(|watch| wanted && watch.attend())
    })
}

/// Waits as the one that keeps the time.
fn keep_time(watch: &'static Watch, ready: &GList) {
    let first = timer::earliest();
    let now = nanotime();
    let shortest = shortest_wait(p::all, now);
    SHORTEST_NOW.store(shortest, Ordering::Relaxed);
    let until = first.max(now.saturating_add(shortest));
    KEEPER.will_wake_at(until);
    if first > now {
        netpoll::wait(watch, (until != NEVER).then(|| until - now), ready);
    }
    KEEPER.end();
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

/// For an M with a P that has nothing in its queues: takes what is ready by now, but for what other Ms wait for. True: there is
/// something in the queue.
pub(crate) fn poll(p: &'static P) -> bool {
    let ready = poll_unattended();
    let some = ready.len() != 0;
    wake::make_all_runnable_on(p, &ready);
    some
}

/// As [`poll`], by sysmon.
pub(crate) fn poll_without_p() {
    make_runnable_anywhere(&poll_unattended());
}

fn poll_unattended() -> GList {
    let ready = GList::new();
    watch::all()
        .filter(|watch| watch.is_unattended())
        .for_each(|watch| netpoll::wait(watch, Some(0), &ready));
    ready
}

/// Puts a list into the global queue.
pub(crate) fn make_runnable_anywhere(ready: &GList) {
    if ready.len() != 0 {
        ready.for_each(|g| g.set_status(Status::Runnable));
        global::lock().push_list(ready);
        wake::wake_p();
    }
}

/// A foreign thread is about to wait for I/O, or a P became idle without its M coming by here: if somebody is missing, and no
/// P is busy (whose M would come before it stops), an M must start to wait.
///
/// Why that is enough: the caller registered its descriptor, or put the P into the idle list, before it looks at who waits,
/// the idle Ps and the spinners here; an M that is about to stop puts its P into the idle list and stops
/// spinning before it looks at the registrations and timers in `wait`. All of these are SeqCst, so one of the two sees
/// the other. If a watch was seen attended, its M polls, or it left and passes by here again before it stops. And an M that came
/// for one watch sees to it that another one comes for the next, if all Ps are idle (`wait`).
pub(crate) fn ensure() {
    if timer::earliest() != NEVER && !is_waiting() {
        wake::wake_p();
    } else {
        ensure_attended();
    }
}

fn ensure_attended() {
    if watch::all().any(Watch::is_unattended) {
        wake::wake_p();
    }
}

/// There is no thread to be had for what `ensure` or `wake_p` wanted, and an M that waits is nobody's to call: what is ready elsewhere
/// is heard now, and for work that waits one of those that wait comes back.
pub(crate) fn make_do() {
    poll_without_p();
    if SLEEP.work_waits(find::work_anywhere)
        && let Some(watch) = watch::all().find(|watch| watch.is_attended())
    {
        watch.interrupt();
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
