//! The poller: the one idle M that waits for timers and I/O. It holds no P while it waits.
//!
//! `until` is the time at which the poller will wake up by itself, or 0 if no M waits. A thread that starts
//! an earlier timer interrupts the poller. The poller publishes `until` first and looks at all timers after;
//! a thread that starts a timer publishes the timer first and looks at `until` after. So one of them sees the
//! other (all four SeqCst).

use std::sync::atomic::Ordering;

use super::due_timers::{earliest, run_all_without_p, run_due};
use super::wake_sysmon;
use crate::netpoll;
use crate::sched::machine::SCHED;
use crate::sched::types::g::GList;
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sched::types::waiter::Waiter;
use crate::sched::word::status::Status;
use crate::sys::clock::nanotime;
use crate::timer::NEVER;

/// The poller waits at least this long (ns), even for a timer that is due earlier, and then runs all timers
/// that became due meanwhile. With thousands of timers, a sleep and a wake-up for each would dominate the
/// cost. Linux gives its own sleepers the same slack of 50 µs.
const SLACK: u64 = 50_000;

/// The slack (ns) while many timers are due: then even a wake-up every 50 µs would be a good part of the
/// work.
const SLACK_OF_MANY: u64 = 250_000;

/// If no M polls and sysmon is awake, it notices within about a millisecond. So for a timer that is due later
/// than this (ns) no M need be woken that polls.
const FAR: u64 = 20_000_000;

/// To wake an M costs about as much CPU time as this (ns): goroutines that take less need no second one.
const WORTH_AN_M: u64 = 20_000;

/// A goroutine is taken to run for at least this long (ns).
const SHORTEST_PACE: u64 = 1_000;

/// If no one has polled for this long (ns), poll before stealing.
const POLL_BEFORE_STEALING_AFTER: u64 = 1_000_000;

/// A timer was started that fires at `when`.
#[inline]
pub(crate) fn new_deadline(when: u64) {
    let until = SCHED.platform.poll.until.load(Ordering::SeqCst);
    if until != 0 && when < until {
        interrupt_before(until);
    }
}

#[cold]
fn interrupt_before(until: u64) {
    // After an interruption the poller would wait for at least `slack` again. If it wakes up before that
    // anyway, it need not be interrupted.
    if until > nanotime().saturating_add(SCHED.platform.poll.slack.load(Ordering::Relaxed)) {
        netpoll::interrupt();
    }
}

/// Whether an M waits for the timers. SeqCst: see `new_deadline`.
pub(crate) fn is_waiting() -> bool {
    SCHED.platform.poll.until.load(Ordering::SeqCst) != 0
}

/// Whether an M is the poller, waiting or about to.
pub(crate) fn is_busy() -> bool {
    SCHED.platform.poll.busy.load(Ordering::Relaxed)
}

/// For an M without a P: waits for the next timer or for I/O, unless another M does so already. May come back
/// with a P.
pub(crate) fn wait(m: &'static M) {
    let ran = wake_sysmon::need_not_wake(m);
    if !may_make_work() {
        if ran.is_some() {
            wake_sysmon::wake_if_asleep(); // this may be a deadlock, and sysmon looks before it sleeps
        }
        return;
    }
    if let Some(nanos) = ran {
        learn_pace(nanos);
    }
    let poll = &SCHED.platform.poll;
    // SeqCst: see `ensure`.
    if poll.busy.swap(true, Ordering::SeqCst) {
        // The poller's deadline may be later than a timer that was moved, or that this M's P left behind.
        new_deadline(earliest());
        return;
    }
    let ready = GList::new();
    loop {
        poll.until.store(NEVER, Ordering::SeqCst);
        let first = earliest();
        let mut now = nanotime();
        let slack = slack(SCHED.all_ps(), now);
        poll.slack.store(slack, Ordering::Relaxed);
        let until = first.max(now.saturating_add(slack));
        poll.until.store(until, Ordering::SeqCst);
        if first > now {
            netpoll::wait((until != NEVER).then(|| until - now), |waiter| wake(waiter, &ready));
            now = nanotime();
        }
        poll.until.store(0, Ordering::SeqCst);
        if first <= now {
            SCHED.all_ps().for_each(|p| run_due(&p.timers, now, &ready));
        }
        // Otherwise this M was interrupted because of an earlier timer, or its timer was stopped.
        let work_waits = || SCHED.idle.work_waits(|| SCHED.work_anywhere());
        if ready.len() != 0 || work_waits() || !may_make_work() {
            break;
        }
    }
    poll.busy.store(false, Ordering::SeqCst);
    take_p_for(m, &ready);
}

fn wake(waiter: usize, ready: &GList) {
    Waiter::from_word(waiter).wake_into(ready);
}

/// Whether a timer or a descriptor may make work later.
pub(crate) fn may_make_work() -> bool {
    netpoll::has_waiters() || earliest() != NEVER
}

/// How long to wait at least for the timers of these Ps (ns).
pub(crate) fn slack<I: IntoIterator<Item = &'static P>>(ps: I, now: u64) -> u64 {
    let chosen = SCHED.platform.poll.chosen_slack.load(Ordering::Relaxed);
    if chosen != 0 {
        return chosen;
    }
    let many = ps.into_iter().any(|p| p.timers.many_are_due(now + SLACK_OF_MANY));
    if many { SLACK_OF_MANY } else { SLACK }
}

/// For an M whose P has empty queues: polls without waiting, if no M is the poller and polling is due. True:
/// there are goroutines in the queue of `p`.
///
/// Polling is due if preempted goroutines wait (they run last), or if no one has polled for a while although
/// other Ps have work. Otherwise stealing comes first: the kernel may have descheduled the thread of another
/// P's owner, and an M that always finds I/O would let that P's goroutines wait until the thread goes on (an
/// HTTP server with 64 connections on two busy cores: p99 4.4 → 1.1 ms). If there is nothing to steal
/// either, the M polls when it goes to wait.
pub(crate) fn poll_if_due(p: &'static P) -> bool {
    let overdue = || {
        let since = nanotime().saturating_sub(netpoll::last_poll());
        since >= POLL_BEFORE_STEALING_AFTER && SCHED.work_anywhere()
    };
    if !netpoll::has_waiters() || is_busy() || (SCHED.preempted_len() == 0 && !overdue()) {
        return false;
    }
    let ready = GList::new();
    netpoll::wait(Some(0), |waiter| wake(waiter, &ready));
    let some = ready.len() != 0;
    SCHED.inject_on(p, &ready);
    some
}

/// Polls without a P, for sysmon and the housekeeper, unless an M is the poller.
pub(crate) fn poll_without_p() {
    if netpoll::has_waiters() && !is_busy() {
        let ready = GList::new();
        netpoll::wait(Some(0), |waiter| wake(waiter, &ready));
        SCHED.inject_global(&ready);
    }
}

/// Makes sure that an M polls, for a foreign thread that is about to wait for I/O, and for a P that became
/// idle without its M calling `wait`. If no M polls, and no P is busy (whose M would poll before it stops),
/// an M must start to.
///
/// Why that is enough: the caller registered its descriptor, or put the P into the idle list, before it looks
/// at `busy`, the idle Ps and the spinners here; an M that is about to stop puts its P into the idle list and
/// stops spinning before it looks at the registrations and timers in `wait`. All of these are SeqCst, so one
/// of the two sees the other. If `busy` was seen set, its M polls, or it has left and calls `wait` again
/// before it stops.
pub(crate) fn ensure() {
    if !SCHED.platform.poll.busy.load(Ordering::SeqCst) && may_make_work() {
        SCHED.wake_p();
    }
}

/// For the housekeeper when no thread can be started. If no M polls, this does what the poller would. A
/// polling M cannot be handed a P, so it is interrupted if work is queued.
pub(crate) fn run_without_new_thread() {
    poll_without_p();
    if !is_busy() {
        run_all_without_p();
    }
    if SCHED.idle.work_waits(|| SCHED.work_anywhere()) && is_busy() {
        netpoll::interrupt();
    }
}

/// Gives the M an idle P and that P the goroutines; if no P is idle, the goroutines go to the global queue.
///
/// Normally the M then spins; when it finds work it wakes another M, which in the end polls in its place. For
/// goroutines that run briefly that would cost more than they do. So if they likely take no longer than
/// [`WORTH_AN_M`] in all, the M runs them one after the other, and nobody polls or looks at timers meanwhile.
/// If that takes long, sysmon wakes another M (`wake_sysmon.rs`).
fn take_p_for(m: &'static M, ready: &GList) {
    let mut locked = SCHED.lock();
    let Some(p) = locked.take_idle_p_untold() else {
        ready.for_each(|g| g.set_status(Status::Runnable));
        locked.push_global_list(ready);
        drop(locked);
        // All Ps are busy, and no M polls any more.
        wake_sysmon::look_soon();
        return;
    };
    drop(locked);
    m.set_p(Some(p));
    let (count, pace) = (ready.len(), SCHED.platform.poll.pace.load(Ordering::Relaxed));
    let few = count == 1 || (count != 0 && count as u64 * pace.max(SHORTEST_PACE) <= WORTH_AN_M);
    if few && !SCHED.platform.sysmon.in_burst.load(Ordering::Relaxed) {
        let now = nanotime();
        let watched = wake_sysmon::wake_later(m, count, now);
        if watched || (count == 1 && earliest() > now.saturating_add(FAR)) {
            while let Some(g) = ready.pop_front() {
                g.set_status(Status::Runnable);
                SCHED.put_last(p, g);
            }
            return;
        }
    } else {
        wake_sysmon::wake_if_asleep();
    }
    m.spinning.set(true);
    SCHED.idle.add_spinner();
    SCHED.inject_on(p, ready);
}

/// Of the times that goroutines took, the largest of late: a single long one counts at once, and is forgotten
/// after some short ones.
fn learn_pace(nanos: u64) {
    let pace = &SCHED.platform.poll.pace;
    pace.store(nanos.max(pace.load(Ordering::Relaxed) / 4 * 3), Ordering::Relaxed);
}
