//! sysmon's look at one P: is its goroutine blocked in a call, or has it computed for too long?

use std::ptr;
use std::sync::atomic::Ordering;

use super::{MICRO, MILLI, SLICE, SLICE_URGENT, Sysmon, Waiting};
use crate::sched::block::unmarked::detach;
use crate::sched::idle::start_m::wake_housekeeper;
use crate::sched::machine::SCHED;
use crate::sched::monitor::preempt;
use crate::sched::run::child_first;
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sys::thread;

/// A marked blocking call keeps its P this long (ns) when another M needs it.
const SYSCALL_GRACE: u64 = 20 * MICRO;
/// A marked blocking call keeps its P this long (ns) when no other M needs it.
const SYSCALL_MAX: u64 = 10 * MILLI;
/// An unmarked call keeps its P this long (ns) when another M needs it, except in a burst (`burst.rs`).
const BLOCKED_GRACE: u64 = 130 * MICRO;
/// An unmarked call keeps its P this long (ns) when no other M needs it.
const BLOCKED_MAX: u64 = 20 * MILLI;
/// A thread may leave a signal unanswered for this long (ns) while a woken goroutine waits. A thread that has
/// a core answers at once.
const UNANSWERED_MAX: u64 = MILLI / 2;
/// sysmon asks the kernel again whether a thread sleeps after at most this long (ns).
const ASK_AT_LEAST_EVERY: u64 = 2 * MILLI;

/// What sysmon saw of a P at earlier looks.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    tick: u32,
    syscall_tick: u32,
    /// The tick of the last look, and its time (ns).
    turns: (u32, u64),
    /// When this slice or call was first seen (ns).
    since: u64,
    /// The time (ns) from which on the kernel may be asked again whether the M's thread sleeps.
    ask_after: u64,
    /// The time of a look, and the CPU time of the M's thread then (ns).
    sample: Option<(u64, u64)>,
    /// As `sample`, of the first look at which this slice was not new.
    first: Option<(u64, u64)>,
    /// When a signal that the M's thread did not react to was first seen, and its CPU time then (ns).
    unanswered: Option<(u64, u64)>,
}

impl Seen {
    /// How many slices ended since the last look, and how long ago that was.
    pub(super) fn turns_until(&mut self, tick: u32, now: u64) -> (u32, u64) {
        let (tick_then, then) = std::mem::replace(&mut self.turns, (tick, now));
        (tick.wrapping_sub(tick_then), (now - then).max(1))
    }

    /// The tick of the last look.
    pub(super) fn last_tick(&self) -> u32 {
        self.turns.0
    }

    pub(super) fn forget_samples(&mut self) {
        (self.sample, self.first) = (None, None);
    }

    /// Whether the M's thread has had a core since the first look at this slice, for half of the time or for
    /// a whole slice. If other processes had the core, the goroutine has not used its slice up.
    fn has_run(&mut self, now: u64, cpu: u64, slice: u64) -> bool {
        // Less CPU time than before: the P has another M, and so another thread.
        let Some((then, cpu_then)) = self.first.filter(|&(_, cpu_then)| cpu_then <= cpu) else {
            self.first = Some((now, cpu));
            return false;
        };
        let used = cpu - cpu_then;
        used >= (now - then) / 2 || used >= slice
    }

    /// Whether a signal is on its way to the M's thread, and the thread has used a whole slice of CPU time
    /// since: it blocks the signal. If `urgent`, also whether it has not answered for a while: then it waits
    /// for a core, and will stop as soon as it gets one.
    fn leaves_signal_unanswered(&mut self, m: &'static M, now: u64, cpu: u64, urgent: bool) -> bool {
        if !m.signalled.load(Ordering::Relaxed) {
            self.unanswered = None;
            return false;
        }
        let (then, cpu_then) = *self.unanswered.get_or_insert((now, cpu));
        cpu.saturating_sub(cpu_then) >= SLICE || (urgent && now - then >= UNANSWERED_MAX)
    }

    /// Whether the M used (almost) no CPU time since an earlier look at the same slice, at least `grace` (ns)
    /// ago, and sleeps in the kernel. With a grace of 0 this look is enough.
    fn is_blocked(&mut self, m: &'static M, now: u64, cpu: u64, grace: u64) -> bool {
        if m.in_user_code().is_none() {
            self.sample = None;
            return false;
        }
        let (then, cpu_then) = *self.sample.get_or_insert((now, cpu));
        let wall = now - then;
        if wall < grace {
            return false;
        }
        self.sample = Some((now, cpu));
        if cpu.saturating_sub(cpu_then) > wall / 8 || now < self.ask_after {
            return false;
        }
        // A thread that waits for a core uses no CPU time either, so ask the kernel whether it sleeps. It may
        // wait for milliseconds, and asking takes ten microseconds, so do not ask at every look.
        let asleep = thread::is_asleep(m.tid()).unwrap_or(true);
        if !asleep {
            self.ask_after = now + (2 * wall).min(ASK_AT_LEAST_EVERY);
        }
        asleep
    }
}

impl Sysmon {
    /// Looks at one P. True: something was done about it.
    pub(super) fn look_at(
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
            p.preempt.store(true, Ordering::Relaxed); // an earlier request may be lost
        }
        if local && !retired && !p.deferred_wake.keeps(&p.runq) {
            // The thread that put it there may have seen no idle P (`requeue_yielded`), or expected it to
            // wait briefly (`take_p_for`).
            SCHED.wake_p();
        }
        let in_burst = self.burst.is_on();
        let some_wait = waiting.any || waiting.forks;
        let needed = local || (some_wait && (waiting.unattended || in_burst)) || retired;
        // A call that blocks must not keep its P from an M that would poll for I/O, either.
        let wanted = needed || waiting.unpolled;
        let is_new = seen.tick != tick || (in_syscall && seen.syscall_tick != syscall_tick);
        if is_new {
            // Take the first sample at once: then two pauses are enough to find a goroutine that blocked as
            // soon as it ran.
            let runs_code = wanted && !in_syscall;
            let sample = p.m().filter(|_| runs_code).and_then(|m| Some((now, thread::cpu_nanos(m.tid())?)));
            let turns = seen.turns;
            *seen = Seen { tick, syscall_tick, turns, since: now, ask_after: now, sample, ..Seen::default() };
        }
        if is_new && (in_syscall || !in_burst) {
            // If the call's thread sleeps already, take its P without a grace period.
            let sleeps = || p.m().is_some_and(|m| thread::is_asleep(m.tid()).unwrap_or(true));
            let retaken = in_syscall && wanted && sleeps() && p.retake();
            self.in_demand |= retaken;
            return retaken && hand_off(p, false);
        }
        let age = now - seen.since;
        if in_syscall {
            self.in_demand = true;
            let retake = (wanted && age >= SYSCALL_GRACE) || age >= SYSCALL_MAX;
            return retake && p.retake() && hand_off(p, false);
        }
        let Some(m) = p.m() else { return false };
        let slice = if local { SLICE_URGENT } else { SLICE };
        // If the thread's CPU time cannot be read, assume that it runs.
        let mut runs = true;
        if let Some(cpu) = thread::cpu_nanos(m.tid()) {
            let grace = match wanted {
                true if in_burst => 0,
                true => BLOCKED_GRACE,
                false => BLOCKED_MAX,
            };
            // If the M has been handed the P and has not woken up yet, `m` is the one before.
            if (wanted || age >= BLOCKED_MAX)
                && m.p().is_some_and(|own| ptr::eq(own, p))
                && seen.is_blocked(m, now, cpu, grace)
                && detach_blocked(m, p, now)
            {
                seen.forget_samples();
                self.in_demand = true;
                self.burst.took_p(now);
                return hand_off(p, in_burst);
            }
            runs = seen.has_run(now, cpu, slice);
            // It keeps computing, without a P, until it gets the signal or calls the runtime. The M that gets
            // the P has slept, so that the kernel gives it a core earlier than a thread that computes.
            let urgent = waiting.urgent && waiting.unattended;
            if needed && seen.leaves_signal_unanswered(m, now, cpu, urgent) && detach(m, p) {
                seen.forget_samples();
                return hand_off(p, false);
            }
        }
        // If a woken goroutine waits, a thread that waits for a core is asked, too: it then stops as soon as
        // it gets one.
        let urgent = local || (waiting.urgent && waiting.unattended && !runs);
        self.in_demand |= runs || urgent;
        let slice = if urgent { SLICE_URGENT } else { SLICE };
        if ((runs || urgent) && needed && age >= slice) || retired {
            return preempt::request(p);
        }
        if runs && longest.is_none_or(|(since, _)| seen.since < since) {
            *longest = Some((seen.since, p));
        }
        false
    }
}

/// Takes the P of an M whose goroutine blocks, and has the call looked at if it lasts
/// (`diag/blocking_calls.rs`).
fn detach_blocked(m: &'static M, p: &'static P, now: u64) -> bool {
    m.call.begin(now);
    let took = detach(m, p);
    if !took {
        m.call.forget(now);
    } else if !SCHED.platform.housekeeper.calls_wanted.swap(true, Ordering::Relaxed) {
        wake_housekeeper();
    }
    took
}

/// Hands the P to another M. In a burst of blocking calls its goroutines go to the global queue first: in its
/// ring they would wait behind one that blocks, too.
fn hand_off(p: &'static P, in_burst: bool) -> bool {
    p.stats.hand_offs.add(1);
    child_first::was_kept_waiting(p);
    if in_burst {
        SCHED.drain_to_global(p);
        SCHED.wake_p(); // while they moved no M could see them
    }
    SCHED.hand_off_p(p);
    true
}
