//! sysmon: a thread without a P that watches the Ps.
//!
//! When it was woken or found something to do it looks again soon (after 20 µs, or 150 µs if no marked call is under way) and, as
//! long as nothing needs it, twice as seldom each time; and it sleeps for good when every P has been idle for some looks. While
//! goroutines wait for a P its pauses are short, and a goroutine that has to wait cuts a longer one short: it tells (`look_soon`)
//! after it was queued, and sysmon looks at the queues after it has said that its pause will be long, so one sees the other.
//! Each look:
//! - takes the P of a marked blocking call that lasts (`in_syscall`), when somebody needs it (to run, or to wait for I/O), or after 10 ms;
//! - takes the P of a goroutine that is blocked in the kernel unmarked: its slice lasts, and its thread used no CPU
//!   time between two looks (`detach.rs`);
//! - asks a goroutine to stop whose slice is over (10 ms) while others wait; and after 1 ms already if the one that
//!   waits was woken by a timer, by I/O or by another goroutine, because it will likely be brief;
//! - finds Ps whose goroutines take turns quickly, and those that no longer do (`brisk.rs`);
//! - stops a goroutine that lost its P while it was blocked, came back and computes without one;
//! - fires timers that no P has time for;
//! - polls for I/O if nobody did for 10 ms.
//!
//! While no slice lasts and nobody blocks it does not take the CPU from who runs (`choose_manners`).
//!
//! It never allocates and takes no lock that user code may hold.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::brisk::Verdict;
use super::detach::detach;
use super::glist::GList;
use super::global::{self, PROCS, SLEEP};
use super::m::{self, M};
use super::note::Note;
use super::p::{self, MAX_PROCS, P};
use super::{deadlock, find, first, poller, preempt, procs, steward, wake};
use crate::netpoll;
use crate::stack::trim;
use crate::sys::clock::nanotime;
use crate::sys::{signal, thread};
use crate::timer;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

/// The first pause, and the longest: while goroutines wait for a P, while all Ps are busy or descriptors are registered, otherwise.
/// The kernel adds 50 µs. Twice
/// the second is what a P may be lost to a call that blocks unmarked: less than half a millisecond.
const PAUSE: u64 = 20 * MICRO;
const PAUSE_WAITING: u64 = 150 * MICRO;
const PAUSE_BUSY: u64 = MILLI;
const PAUSE_MAX: u64 = 10 * MILLI;

/// A marked blocking call keeps its P so long when others need it, and so long at all.
const SYSCALL_GRACE: u64 = 20 * MICRO;
const SYSCALL_MAX: u64 = 10 * MILLI;
/// An unmarked one: when others need it, and at all.
const BLOCKED_GRACE: u64 = 130 * MICRO;
const BLOCKED_MAX: u64 = 20 * MILLI;
/// Whether a thread sleeps is asked again after so long at the most.
const ASK_AT_LEAST_EVERY: u64 = 2 * MILLI;
/// A time slice, and a shorter one when somebody urgent waits.
const SLICE: u64 = 10 * MILLI;
const SLICE_URGENT: u64 = MILLI;
/// If nobody polled for I/O for so long, nobody has time to.
const UNPOLLED: u64 = 10 * MILLI;
/// A timer that is overdue by this much has no P that looks after it.
const TIMER_OVERDUE: u64 = 50 * MICRO;

/// So many looks at idle Ps before it sleeps for good. A server's Ps become idle and busy again thousands of times a
/// second, and waking sysmon each time would cost more than the request.
const LINGER: u32 = 5;

/// For so many looks after goroutines waited for a P, they are thought to.
const WAITED: u32 = 8;

/// So many looks at which nothing was urgent before sysmon gets out of the way.
const POLITE_AFTER: u32 = 16;

static ASLEEP: AtomicBool = AtomicBool::new(false);
static WAKE: Note = Note::new();

/// A P is no longer idle: there is something to watch.
#[inline]
pub(crate) fn wake_if_asleep() {
    if ASLEEP.load(Ordering::SeqCst) {
        trim::update_clock();
        WAKE.set();
    }
}

/// In a pause that is longer than it would be if goroutines waited.
static IN_LONG_PAUSE: AtomicBool = AtomicBool::new(false);

/// A goroutine has to wait because all Ps are busy: perhaps one of them is blocked.
#[inline]
pub(crate) fn look_soon() {
    // SeqCst: after the put, which is too.
    if IN_LONG_PAUSE.load(Ordering::SeqCst) {
        cut_pause_short();
    }
}

#[cold]
fn cut_pause_short() {
    if IN_LONG_PAUSE.swap(false, Ordering::Relaxed) {
        WAKE.set();
    }
}

/// For reports: every P is idle and there is nothing to watch.
pub(crate) fn is_asleep() -> bool {
    ASLEEP.load(Ordering::Relaxed)
}

/// What sysmon saw of a P at earlier looks.
#[derive(Clone, Copy, Default)]
struct Seen {
    tick: u32,
    syscall_tick: u32,
    /// The tick of the last look, and when that was.
    turns: (u32, u64),
    /// When this slice or call was first seen.
    since: u64,
    /// When the kernel may be asked again whether the M's thread sleeps.
    ask_after: u64,
    /// Time of a look, and the CPU time of the M's thread then.
    sample: Option<(u64, u64)>,
    /// The same, of the first look at which this slice was not new.
    first: Option<(u64, u64)>,
}

struct Sysmon {
    seen: Box<[Seen]>,
    pause: u64,
    /// Goroutines waited at one of so many looks from now backwards.
    waited: u32,
    /// Some P was brisk at the last look.
    some_brisk: bool,
    /// Some P was in a marked call at the last look.
    some_call: bool,
    /// At the last look there was something to be in time for: some goroutine, or a marked call, has had a core since
    /// the look before, or a goroutine was found that is blocked, and more of them may follow.
    in_demand: bool,
    /// So many looks since that was so.
    quiet_looks: u32,
    /// See [`thread::may_choose_manners`].
    may_be_polite: bool,
    /// It does not interrupt who runs.
    polite: bool,
    /// The number of polls at an earlier look, and when that was.
    polls: (usize, u64),
}

/// The thread.
pub(crate) fn run() {
    let _stack = signal::prepare_thread();
    deadlock::register_own_thread(0);
    let mut sysmon = Sysmon {
        seen: vec![Seen::default(); MAX_PROCS].into(),
        pause: PAUSE,
        waited: 0,
        some_brisk: false,
        some_call: false,
        in_demand: false,
        quiet_looks: 0,
        may_be_polite: thread::may_choose_manners(),
        polite: false,
        polls: (0, 0),
    };
    let mut idle_looks = 0;
    loop {
        idle_looks = if all_idle() { idle_looks + 1 } else { 0 };
        if idle_looks > LINGER {
            sysmon.sleep_for_good();
        } else {
            let soon = idle_looks == 0 || sysmon.some_brisk;
            sysmon.rest(if soon { sysmon.pause } else { PAUSE_BUSY });
        }
        sysmon.look();
    }
}

fn all_idle() -> bool {
    SLEEP.idle() >= PROCS.load(Ordering::SeqCst) && !procs::some_leave()
}

/// A goroutine that was detached from its P and may be computing by now.
fn runs_without_p(m: &'static M) -> bool {
    m.p().is_none() && m.in_runtime.get() == 0 && m.current().is_some_and(|g| !g.blocking.get())
}

/// What waits for a P.
#[derive(Clone, Copy)]
struct Waiting {
    /// Woken goroutines in the global queue.
    urgent: bool,
    /// Anything, anywhere.
    any: bool,
    /// Nobody looks for work.
    unattended: bool,
    /// Nobody looks for I/O either, and somebody may wait for that.
    unpolled: bool,
}

fn waiting() -> Waiting {
    let urgent = global::queue_len() != 0;
    let local = || (0..PROCS.load(Ordering::Relaxed) as usize).filter_map(p::get).any(|p| !p.runq.is_empty());
    let unattended = SLEEP.idle() == 0 && SLEEP.spinning() == 0;
    Waiting {
        urgent,
        any: urgent || global::hogs_len() != 0 || local(),
        unattended,
        unpolled: unattended && netpoll::has_waiters() && !poller::is_busy(),
    }
}

/// So many slices ended on the P in so many nanoseconds: is it brisk? See `brisk.rs`.
fn look_at_turns(p: &'static P, (slices, nanos): (u32, u64)) -> bool {
    let verdict = p.brisk.judge(slices, nanos);
    if verdict == Verdict::NoLonger && !p.runq.is_empty() {
        wake::wake_p();
    }
    verdict == Verdict::Brisk
}

impl Sysmon {
    /// Until a P is taken from the idle list. SeqCst: either we see that one is busy, or its taker sees us asleep.
    fn sleep_for_good(&mut self) {
        ASLEEP.store(true, Ordering::SeqCst);
        if all_idle() {
            deadlock::request();
            WAKE.wait();
        }
        ASLEEP.store(false, Ordering::SeqCst);
        self.pause = PAUSE;
    }

    fn rest(&mut self, mut pause: u64) {
        if pause > PAUSE_WAITING {
            IN_LONG_PAUSE.store(true, Ordering::SeqCst);
            if waiting().any {
                pause = PAUSE_WAITING;
            }
        }
        if WAKE.wait_until(Some(Instant::now() + Duration::from_nanos(pause))) {
            self.pause = PAUSE;
        }
        IN_LONG_PAUSE.store(false, Ordering::Relaxed);
    }

    fn look(&mut self) {
        let now = nanotime();
        self.fire_overdue_timers(now);
        self.poll(now);
        let mut waiting = waiting();
        (self.some_brisk, self.some_call) = (false, false);
        let mut acted = false;
        let mut longest: Option<(u64, &'static P)> = None;
        let mut unattended: Option<&'static P> = None;
        self.in_demand = false;
        for p in p::all() {
            let seen = &mut self.seen[p.id as usize];
            let turns = seen.turns_until(p.tick.load(Ordering::Relaxed), now);
            if global::is_idle(p.id as usize) {
                let _ = look_at_turns(p, (0, 1));
                (seen.sample, seen.first) = (None, None);
                continue;
            }
            if p.m().is_none() {
                continue; // retired, and given up
            }
            self.some_brisk |= look_at_turns(p, turns);
            self.some_call |= p.in_syscall.load(Ordering::Relaxed);
            if turns.0 < find::TIMERS_EVERY && !p.timers.is_in_use() {
                unattended = unattended.into_iter().chain([p]).min_by_key(|p| p.timers.next());
            }
            acted |= self.look_at(p, now, waiting, &mut longest);
            // One P is enough to poll.
            waiting.unpolled &= SLEEP.idle() == 0 && SLEEP.spinning() == 0;
        }
        if waiting.urgent
            && waiting.unattended
            && let Some((since, p)) = longest
            && now - since >= SLICE_URGENT
        {
            let _looks_again_soon_in_any_case = preempt::request(p);
        }
        self.look_at_detached();
        self.choose_manners();
        steward::request_pass();
        // There somebody may wait at any time, and tells nobody; and somebody waits for Ps that have to go.
        waiting.any |= self.some_brisk || procs::some_leave();
        self.choose_pause(now, waiting, acted, unattended);
    }

    /// Of Ps whose goroutines run for so long that they do not come to look at their timers.
    fn fire_overdue_timers(&self, now: u64) {
        if poller::is_waiting() || timer::earliest().saturating_add(TIMER_OVERDUE) > now {
            return;
        }
        let ready = GList::new();
        for p in p::all() {
            let turns = p.tick.load(Ordering::Relaxed).wrapping_sub(self.seen[p.id as usize].turns.0);
            if turns < find::TIMERS_EVERY && !p.timers.is_in_use() {
                p.timers.run_due(now, &ready);
            }
        }
        poller::make_runnable_anywhere(&ready);
    }

    fn poll(&mut self, now: u64) {
        let polls = netpoll::polls();
        if polls != self.polls.0 {
            self.polls = (polls, now);
        } else if now - self.polls.1 >= UNPOLLED {
            poller::poll_without_p();
        } else {
            poller::ensure(); // an idle P's M may poll
        }
    }

    /// True if something was done about this P.
    fn look_at(
        &mut self,
        p: &'static P,
        now: u64,
        waiting: Waiting,
        longest: &mut Option<(u64, &'static P)>,
    ) -> bool {
        let seen = &mut self.seen[p.id as usize];
        let tick = p.tick.load(Ordering::Relaxed);
        let syscall_tick = p.syscall_tick.load(Ordering::Relaxed);
        let in_syscall = p.in_syscall.load(Ordering::Relaxed);
        let local = !p.runq.is_empty();
        let retired = p.retired.load(Ordering::Relaxed);
        if retired {
            p.preempt.store(true, Ordering::Relaxed); // the owner may have answered an earlier request just then
        }
        if local && !retired && !p.brisk.keeps(&p.runq) {
            wake::wake_p(); // who put it there may have seen no idle P (`put_back`)
        }
        let needed = local || (waiting.any && waiting.unattended) || retired;
        // A call that blocks must not keep the P from somebody who would poll, either.
        let wanted = needed || waiting.unpolled;
        if seen.tick != tick || (in_syscall && seen.syscall_tick != syscall_tick) {
            // The first sample at once: then two pauses are enough to find a goroutine that blocked as soon as it ran.
            let runs_code = wanted && !in_syscall;
            let sample = p.m().filter(|_| runs_code).and_then(|m| Some((now, thread::cpu_nanos(m.tid())?)));
            *seen = Seen {
                tick,
                syscall_tick,
                turns: seen.turns,
                since: now,
                ask_after: now,
                sample,
                first: None,
            };
            // A call that sleeps already need not be given time.
            let sleeps = || p.m().is_some_and(|m| thread::is_asleep(m.tid()).unwrap_or(true));
            let retaken = in_syscall && wanted && sleeps() && p.take_from_syscall();
            self.in_demand |= retaken;
            return retaken && hand_off(p);
        }
        let age = now - seen.since;
        if in_syscall {
            self.in_demand = true;
            let retake = (wanted && age >= SYSCALL_GRACE) || age >= SYSCALL_MAX;
            return retake && p.take_from_syscall() && hand_off(p);
        }
        let Some(m) = p.m() else { return false };
        let slice = if local { SLICE_URGENT } else { SLICE };
        // Without a clock that tells, it does.
        let mut runs = true;
        if let Some(cpu) = thread::cpu_nanos(m.tid()) {
            if (wanted || age >= BLOCKED_MAX) && seen.is_blocked(m, now, cpu, wanted) && detach(m, p) {
                (seen.sample, seen.first) = (None, None);
                self.in_demand = true;
                return hand_off(p);
            }
            runs = seen.has_run(now, cpu, slice);
        }
        self.in_demand |= runs;
        if (runs && needed && age >= slice) || retired {
            return preempt::request(p);
        }
        if runs && longest.is_none_or(|(since, _)| seen.since < since) {
            *longest = Some((seen.since, p));
        }
        false
    }

    /// Goroutines that came back from a blocking call and compute without a P get 10 ms, then they wait for one.
    fn look_at_detached(&self) {
        for m in m::all().filter(|m| runs_without_p(m)) {
            let Some(cpu) = thread::cpu_nanos(m.tid()) else { continue };
            let before = m.cpu_when_detached.get();
            if before == 0 || cpu < before {
                m.cpu_when_detached.set(cpu);
            } else if cpu - before >= SLICE {
                m.cpu_when_detached.set(0);
                let _it_is_asked_again = preempt::interrupt(m);
            }
        }
    }

    /// While goroutines take turns by themselves, a look that takes the CPU from one of them costs more than it is worth
    /// (measured with echo and timers: a sixth of all CPU time): sysmon waits for a core that is free, and the thread of a
    /// goroutine that blocks leaves one, unless other processes want it. Slices that last, and calls that block one after the
    /// other, need it in time.
    fn choose_manners(&mut self) {
        self.quiet_looks = if self.in_demand { 0 } else { self.quiet_looks.saturating_add(1) };
        let polite = self.may_be_polite && self.quiet_looks >= POLITE_AFTER;
        if self.polite != polite {
            self.polite = polite;
            thread::interrupt_others_when_woken(!polite);
        }
    }

    /// `unattended`: of the Ps that may not have looked at their timers since the last look, the one with the earliest.
    fn choose_pause(&mut self, now: u64, waiting: Waiting, acted: bool, unattended: Option<&'static P>) {
        let busy = SLEEP.idle() == 0;
        // Between two goroutines that take turns there are moments when none waits.
        self.waited = if waiting.any { WAITED } else { self.waited.saturating_sub(1) };
        let longest = if self.waited != 0 {
            PAUSE_WAITING
        } else if busy || netpoll::has_waiters() {
            // (Who polls may find a P, and its M something that takes long.)
            PAUSE_BUSY
        } else {
            PAUSE_MAX
        };
        // Only a marked call can be judged after a shorter one.
        let shortest = if self.some_call { PAUSE } else { PAUSE_WAITING };
        self.pause = if acted { PAUSE } else { (self.pause * 2).clamp(shortest, longest) };
        if let Some(p) = unattended
            && (busy || !poller::is_waiting())
        {
            let left = p.timers.next().saturating_add(TIMER_OVERDUE).saturating_sub(now);
            self.pause = self.pause.min(left.max(poller::slack([p], now)));
        }
    }
}

impl Seen {
    /// How many slices ended since the last look, and how long ago that was.
    fn turns_until(&mut self, tick: u32, now: u64) -> (u32, u64) {
        let (tick_then, then) = std::mem::replace(&mut self.turns, (tick, now));
        (tick.wrapping_sub(tick_then), (now - then).max(1))
    }

    /// Whether the M's thread has had a core since it was first looked at in this slice, for half of the time or for a whole
    /// slice. If other processes had it, nobody is served by taking the P from the thread that will get it back next.
    fn has_run(&mut self, now: u64, cpu: u64, slice: u64) -> bool {
        // Less than before: it is another thread's.
        let Some((then, cpu_then)) = self.first.filter(|&(_, cpu_then)| cpu_then <= cpu) else {
            self.first = Some((now, cpu));
            return false;
        };
        let used = cpu - cpu_then;
        used >= (now - then) / 2 || used >= slice
    }

    /// Whether the M used (almost) no CPU time since an earlier look at the same slice, and sleeps in the kernel.
    fn is_blocked(&mut self, m: &'static M, now: u64, cpu: u64, needed: bool) -> bool {
        if m.in_runtime.get() != 0 {
            self.sample = None;
            return false;
        }
        let Some((then, cpu_then)) = self.sample else {
            self.sample = Some((now, cpu));
            return false;
        };
        let wall = now - then;
        if wall < if needed { BLOCKED_GRACE } else { BLOCKED_MAX } {
            return false;
        }
        self.sample = Some((now, cpu));
        if cpu.saturating_sub(cpu_then) >= wall / 8 || now < self.ask_after {
            return false;
        }
        // A thread that waits for a core uses no CPU time either. It may wait for milliseconds, and to ask takes ten
        // microseconds: not at every look.
        let asleep = thread::is_asleep(m.tid()).unwrap_or(true);
        if !asleep {
            self.ask_after = now + (2 * wall).min(ASK_AT_LEAST_EVERY);
        }
        asleep
    }
}

fn hand_off(p: &'static P) -> bool {
    p.stats.hand_offs.add(1);
    first::was_kept_waiting(p);
    wake::hand_off_p(p);
    true
}
