//! sysmon: a thread without a P that watches the Ps and helps where an M cannot help itself.
//!
//! Each look:
//! - takes the P of a long marked blocking call (`in_syscall`): when another M needs it, to run a goroutine
//!   or to poll for I/O, or after 10 ms;
//! - takes the P of a goroutine that blocks in an unmarked call: its slice is long, and its thread used no
//!   CPU time between two looks (`slices.rs`, `block/unmarked.rs`); when many do, at the first look
//!   (`burst.rs`);
//! - preempts a goroutine whose slice is over while others wait: after 10 ms, or after 1 ms if a waiting one
//!   was woken by a timer, by I/O or by another goroutine, because that one will likely run only briefly;
//! - marks Ps as brisk whose goroutines take turns quickly, and unmarks those whose goroutines no longer do
//!   (`queue/deferred_wake.rs`);
//! - stops a goroutine that lost its P while it was blocked, has returned, and computes without a P;
//! - fires overdue timers of Ps whose goroutines run too long;
//! - polls for I/O if no M did for 10 ms;
//! - measures the CPU time of goroutines (`cpu_ticks.rs`).
//!
//! `pauses.rs` chooses the pause between two looks.
//!
//! It never allocates and takes no lock that user code may hold.

mod burst;
mod cpu_ticks;
mod pauses;
mod slices;

use std::os::fd::IntoRawFd;
use std::sync::atomic::Ordering;

use super::{housekeeper, preempt};
use crate::base::atomic::MAX_PROCS;
use crate::netpoll;
use crate::sched::idle::{due_timers, poll_wait};
use crate::sched::machine::SCHED;
use crate::sched::queue::deferred_wake::Pace;
use crate::sched::run::find_runnable::TIMERS_EVERY;
use crate::sched::types::g::GList;
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sys::clock::nanotime;
use crate::sys::{signal, thread, timerfd};
use burst::Burst;
use cpu_ticks::CpuTicks;
use pauses::Pauses;
use slices::Seen;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

/// A time slice (ns).
const SLICE: u64 = 10 * MILLI;
/// A time slice (ns) while a goroutine waits that will likely run only briefly.
const SLICE_URGENT: u64 = MILLI;
/// If no M has polled for I/O for this long (ns), sysmon polls: all Ms are busy.
const UNPOLLED: u64 = 10 * MILLI;
/// If a timer is overdue by this much (ns), sysmon fires it: its P's goroutine runs too long.
const TIMER_OVERDUE: u64 = 50 * MICRO;
/// A look asks this many Ms whether they compute without a P.
const DETACHED_AT_ONCE: usize = 64;

struct Sysmon {
    seen: Box<[Seen]>,
    pauses: Pauses,
    burst: Burst,
    cpu_ticks: CpuTicks,
    /// The last look found something that needs sysmon to be on time: a goroutine or a marked call that has
    /// lasted since the look before, or a blocked goroutine, which others may follow.
    in_demand: bool,
    /// The number of polls at an earlier look, and when that was.
    polls: (usize, u64),
    /// The M with which the next look for goroutines that compute without a P begins; `None`: the newest.
    next_detached: Option<&'static M>,
}

/// What waits for a P.
#[derive(Clone, Copy)]
struct Waiting {
    /// Woken goroutines in the global queue.
    urgent: bool,
    /// Any goroutine, in any queue.
    any: bool,
    /// Pending forks. They do not make the pauses short: mostly, their owners come to them soon.
    forks: bool,
    /// No P is idle and no M looks for work.
    unattended: bool,
    /// No M polls for I/O either, and a goroutine may wait for that.
    unpolled: bool,
}

fn waiting() -> Waiting {
    let urgent = SCHED.global_len() != 0;
    let local = || SCHED.ps_in_use().any(|p| !p.runq.is_empty());
    let unattended = is_unattended();
    Waiting {
        urgent,
        any: urgent || SCHED.preempted_len() != 0 || local(),
        forks: SCHED.platform.forks.forks_wait(),
        unattended,
        unpolled: unattended && netpoll::has_waiters() && !poll_wait::is_busy(),
    }
}

fn is_unattended() -> bool {
    SCHED.idle.idle() == 0 && SCHED.idle.spinning() == 0
}

fn all_idle() -> bool {
    SCHED.all_ps_idle() && !SCHED.platform.ps_leaving()
}

/// Whether the M's goroutine was detached from its P and may be computing by now.
fn runs_without_p(m: &'static M) -> bool {
    m.p().is_none() && m.in_user_code().is_some_and(|g| !g.blocking.get())
}

/// sysmon's thread. `eager`: it does not change its scheduling policy.
pub(crate) fn run(eager: bool) {
    let _stack = signal::prepare_thread();
    SCHED.platform.sysmon.tid.store(thread::tid(), Ordering::Relaxed);
    if let Ok(timer) = timerfd::create() {
        // Release: the threads that set the timer see that it exists.
        SCHED.platform.sysmon.timer.store(timer.into_raw_fd(), Ordering::Release);
    }
    let mut sysmon = Sysmon {
        seen: vec![Seen::default(); MAX_PROCS].into(),
        pauses: Pauses::new(!eager && thread::can_set_wakeup_preemption()),
        burst: Burst::default(),
        cpu_ticks: CpuTicks::new(),
        in_demand: false,
        polls: (0, 0),
        next_detached: None,
    };
    loop {
        let slept = sysmon.pauses.rest(|| sysmon.burst.end());
        sysmon.cpu_ticks.tick(nanotime(), slept);
        sysmon.look();
    }
}

impl Sysmon {
    fn look(&mut self) {
        let now = nanotime();
        SCHED.platform.sysmon.looked_at.store(now, Ordering::Relaxed);
        self.burst.begin_look(now);
        self.fire_overdue_timers(now);
        self.poll(now);
        let mut waiting = waiting();
        let (mut some_brisk, mut some_call) = (false, false);
        let mut acted = false;
        let mut longest: Option<(u64, &'static P)> = None;
        let mut unattended: Option<&'static P> = None;
        self.in_demand = false;
        for p in SCHED.all_ps() {
            let seen = &mut self.seen[p.id as usize];
            let turns = seen.turns_until(p.tick.load(Ordering::Relaxed), now);
            if SCHED.is_idle(p.id as usize) {
                let _not_brisk = look_at_pace(p, (0, 1));
                seen.forget_samples();
                continue;
            }
            if p.m().is_none() {
                continue; // retired, and given up
            }
            some_brisk |= look_at_pace(p, turns);
            some_call |= p.in_syscall.load(Ordering::Relaxed);
            if turns.0 < TIMERS_EVERY && !p.timers.is_in_use() {
                unattended = unattended.into_iter().chain([p]).min_by_key(|p| p.timers.next());
            }
            acted |= self.look_at(p, now, waiting, &mut longest);
            // One P is enough to poll.
            waiting.unpolled &= is_unattended();
        }
        if waiting.urgent
            && waiting.unattended
            && let Some((since, p)) = longest
            && now - since >= SLICE_URGENT
        {
            let _looks_again_soon_in_any_case = preempt::request(p);
        }
        if waiting.forks {
            SCHED.wake_p(); // the goroutine that pushed the fork may have seen no idle P
        }
        self.look_at_detached();
        self.pauses.set_wakeup_preemption(self.in_demand);
        housekeeper::request_pass();
        // On a brisk P a goroutine may wait at any time without waking sysmon. And a call that shrinks
        // GOMAXPROCS waits until the retired Ps are given up.
        waiting.any |= some_brisk || SCHED.platform.ps_leaving();
        some_call |= self.burst.is_on(); // soon the next goroutine blocks
        self.pauses.choose(now, waiting.any, some_brisk, some_call, acted, unattended);
    }

    /// Fires the timers of Ps whose goroutines run so long that the Ps do not get to their timers.
    fn fire_overdue_timers(&self, now: u64) {
        if poll_wait::is_waiting() || due_timers::earliest().saturating_add(TIMER_OVERDUE) > now {
            return;
        }
        let ready = GList::new();
        for p in SCHED.all_ps() {
            let turns = p.tick.load(Ordering::Relaxed).wrapping_sub(self.seen[p.id as usize].last_tick());
            if turns < TIMERS_EVERY && !p.timers.is_in_use() {
                due_timers::run_due(&p.timers, now, &ready);
            }
        }
        SCHED.inject_global(&ready);
    }

    fn poll(&mut self, now: u64) {
        let polls = netpoll::polls();
        if polls != self.polls.0 {
            self.polls = (polls, now);
        } else if now - self.polls.1 >= UNPOLLED {
            poll_wait::poll_without_p();
        } else {
            poll_wait::ensure(); // wakes an M for an idle P, which then polls
        }
    }

    /// Goroutines that came back from a blocking call and compute without a P get 10 ms, then they wait for
    /// one.
    ///
    /// A look covers [`DETACHED_AT_ONCE`] Ms and the next look goes on from there: thousands may be blocked,
    /// and to ask for the CPU time of each takes longer than the pause between two looks.
    fn look_at_detached(&mut self) {
        let newest = SCHED.platform.all_ms().next();
        let mut next = self.next_detached.or(newest);
        for _ in 0..DETACHED_AT_ONCE {
            let Some(m) = next else { break };
            next = m.older.get();
            if !runs_without_p(m) {
                continue;
            }
            let Some(cpu) = thread::cpu_nanos(m.tid()) else { continue };
            let before = m.cpu_when_detached.get();
            if before == 0 || cpu < before {
                m.cpu_when_detached.set(cpu);
            } else if cpu - before >= SLICE {
                m.cpu_when_detached.set(0);
                let _it_is_asked_again = preempt::interrupt(m);
            }
        }
        self.next_detached = next;
    }
}

/// Judges whether the P is brisk, from how many slices ended on it in how many nanoseconds.
fn look_at_pace(p: &'static P, (slices, nanos): (u32, u64)) -> bool {
    let pace = p.deferred_wake.judge(slices, nanos);
    if pace == Pace::NoLongerBrisk && !p.runq.is_empty() {
        SCHED.wake_p();
    }
    pace == Pace::Brisk
}
