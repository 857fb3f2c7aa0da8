//! Finding the next goroutine to run: what the diagram in ARCHITECTURE.md shows.
//!
//! `next_local` is the fast path: it may run with the last goroutine's thread pointer, so it touches no TLS.
//! `find_runnable` looks everywhere else and, when there is nothing, gives the P up and stops the M.

use std::ptr;

use crate::base::atomic::Ordering;
use crate::sched::platform::Platform;
use crate::sched::queue::latency_sampler::GLOBAL_EVERY;
use crate::sched::schedt::Sched;
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sched::types::p::P;

/// `runnext` may win over the ring this many times in a row, so that two goroutines that keep waking each
/// other cannot starve the rest; for the same reason the global queue comes first at every 61st tick.
const NEXT_STREAK: u32 = 61;

/// The P looks at its timers, and reads the clock, at every 8th tick: while goroutines switch quickly that is
/// often enough.
pub(crate) const TIMERS_EVERY: u32 = 8;

/// At every 8th look for work, and every 4th visit of the global queue by a busy P, pending forks come first
/// although their owners do not wait: an owner may wait for its fork in a loop. A smaller number would start
/// more forks than there are Ps for them; 8 slices take 80 ms.
const FORKS_EVERY: u32 = 8;
const FORKS_EVERY_VISIT: u32 = 4;

/// How long (ns) a spinner that found nothing waits before each further look. While it spins, no thread has
/// to wake an M, which would be the waker's largest cost; and a sleep and a wake-up would cost more than
/// this. Where timers or I/O bring the work this does not pay: measured with an echo server, a sixth more CPU
/// time.
const LINGER: [u64; 4] = [1_000, 2_000, 4_000, 8_000];

impl<X: Platform> Sched<X> {
    /// The next goroutine of this M's own P.
    #[inline(never)]
    pub(crate) fn next_local(&self, m: &'static M) -> Option<&'static G> {
        let p = m.p()?;
        let tick = p.tick.load(Ordering::Relaxed).wrapping_add(1);
        p.tick.store(tick, Ordering::Relaxed);
        if p.preempt.load(Ordering::Relaxed) {
            if p.retired.load(Ordering::Relaxed) {
                return None;
            }
            p.answer_preempt();
        }
        if p.sampler.is_due(tick)
            && let Some(g) = self.at_rare_tick(p, tick)
        {
            return Some(g);
        }
        if tick % TIMERS_EVERY == 0 {
            X::run_timers(self, p, p);
        }
        // SAFETY: this M owns the P.
        let owner = unsafe { p.runq.owner() };
        let streak = p.next_streak.get();
        if streak < NEXT_STREAK {
            let next = owner.take_next();
            if !next.is_null() {
                p.next_streak.set(streak + 1);
                // SAFETY: the queue holds pointers to Gs only, and this one is ours now.
                return Some(unsafe { &*next });
            }
        }
        p.next_streak.set(0);
        let g = owner.take();
        if let Some([next, after]) = owner.peek_if_several() {
            self.platform.prefetch(m, next, after);
        }
        let g = if g.is_null() { owner.take_next() } else { g };
        // SAFETY: as above.
        unsafe { g.as_ref() }
    }

    /// [`next_local`](Sched::next_local) for the case that only the ring matters; `None` if `next_local` has
    /// to decide.
    #[inline(always)]
    pub(crate) fn next_in_ring(&self, p: &'static P) -> Option<&'static G> {
        let tick = p.tick.load(Ordering::Relaxed).wrapping_add(1);
        let timers_due = tick.is_multiple_of(TIMERS_EVERY);
        // SAFETY: the calling M owns the P.
        let owner = unsafe { p.runq.owner() };
        if timers_due
            || p.sampler.is_due(tick)
            || p.preempt.load(Ordering::Relaxed)
            || !owner.is_short_without_next()
        {
            return None;
        }
        p.tick.store(tick, Ordering::Relaxed);
        p.next_streak.set(0);
        // SAFETY: the queue holds pointers to Gs only, and this one is ours now.
        unsafe { owner.take().as_ref() }
    }

    /// Work that is not done at every tick: sampling latencies, giving up memory, and looking at the global
    /// queue first.
    #[cold]
    fn at_rare_tick(&self, p: &'static P, tick: u32) -> Option<&'static G> {
        self.platform.give_up_unused(p);
        self.platform.measure_cpu_time_if_late(p);
        let next_wins = p.next_streak.get() < NEXT_STREAK;
        let global_first = p.sampler.look(tick, &p.runq, next_wins, || self.platform.now());
        if !global_first {
            return None;
        }
        let forks_first = (tick / GLOBAL_EVERY).is_multiple_of(FORKS_EVERY_VISIT);
        let helper = if forks_first { self.platform.take_fork_helper(true) } else { None };
        helper.or_else(|| self.take_global_for_fairness(tick))
    }

    /// The oldest of the global queue and of the preempted goroutines, in turn.
    fn take_global_for_fairness(&self, tick: u32) -> Option<&'static G> {
        if self.global_len() + self.preempted_len() == 0 {
            return None;
        }
        let mut locked = self.lock();
        if (tick / GLOBAL_EVERY).is_multiple_of(2) {
            match locked.pop_global() {
                None => locked.pop_preempted(),
                found => found,
            }
        } else {
            match locked.pop_preempted() {
                None => locked.pop_global(),
                found => found,
            }
        }
    }

    /// Finds a goroutine in any queue; stops the M while there is none. `None`: the thread must end.
    pub(crate) fn find_runnable(&self, m: &'static M) -> Option<&'static G> {
        loop {
            let Some(p) = m.p() else {
                if !X::stop_m(self, m) {
                    return None;
                }
                continue;
            };
            if p.retired.load(Ordering::Relaxed) {
                self.give_up_retired_p(m, p);
                continue;
            }
            p.sampler.forget();
            X::run_timers(self, p, p);
            let own = self.next_local(m);
            if own.is_none() && p.retired.load(Ordering::Relaxed) {
                continue; // its ring may hold goroutines, which move to the global queue
            }
            let found = own
                .or_else(|| self.take_global(p))
                .or_else(|| if X::poll_if_due(self, p) { self.next_local(m) } else { None })
                .or_else(|| {
                    // Not the tick: it may grow by the same even number between two looks.
                    p.fork_looks.set(p.fork_looks.get().wrapping_add(1));
                    self.platform.take_fork_helper(p.fork_looks.get().is_multiple_of(FORKS_EVERY))
                })
                .or_else(|| self.take_preempted())
                .or_else(|| self.spin(m, p));
            if let Some(g) = found {
                self.stop_spinning_with_work(m);
                return Some(g);
            }
            self.give_up_idle_p(m, p);
            if m.p().is_none() {
                X::poll_wait(self, m);
            }
        }
    }

    /// Takes this P's share of the global queue: the first to run, the others into its own queue. In a burst
    /// of blocking calls it takes one, because the others would wait behind that one if it blocks.
    fn take_global(&self, p: &'static P) -> Option<&'static G> {
        if self.global_len() == 0 {
            return None;
        }
        // SAFETY: the caller owns the P.
        let owner = unsafe { p.runq.owner() };
        let mut locked = self.lock();
        let share = locked.global_len() / self.procs().max(1) + 1;
        let share = if self.platform.in_burst() { 1 } else { share.min(owner.room() / 2) };
        locked.pop_global_share(share, |g| {
            let fits = owner.try_put(ptr::from_ref(g).cast_mut());
            debug_assert!(fits, "room was checked");
        })
    }

    /// Takes a preempted goroutine. Only one at a time, because each will likely use a P for long.
    fn take_preempted(&self) -> Option<&'static G> {
        if self.preempted_len() == 0 {
            return None;
        }
        self.lock().pop_preempted()
    }

    /// Steals, if not too many Ms do so already.
    fn spin(&self, m: &'static M, p: &'static P) -> Option<&'static G> {
        if !m.spinning.get() {
            if !self.idle.transition_m_to_spinning(self.procs() as u32) {
                return None;
            }
            m.spinning.set(true);
            p.stats.spins.add(1);
        }
        self.steal(m, p)
            .or_else(|| {
                self.all_ps().for_each(|other| X::run_timers(self, p, other));
                self.next_local(m)
            })
            .or_else(|| self.platform.take_fork_helper(true))
            .or_else(|| self.linger(m, p))
    }

    /// Looks again a few times: see [`LINGER`].
    fn linger(&self, m: &'static M, p: &'static P) -> Option<&'static G> {
        if X::waits_for_time_or_io(self) {
            return None;
        }
        for nanos in LINGER {
            self.platform.busy_wait(nanos);
            if p.retired.load(Ordering::Relaxed) || self.global_len() != 0 {
                return self.take_global(p);
            }
            let found = self.steal(m, p).or_else(|| self.platform.take_fork_helper(true));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// A spinner that found work stops spinning and wakes the next M, because there may be more work (S3).
    fn stop_spinning_with_work(&self, m: &'static M) {
        if m.spinning.replace(false) && self.idle.transition_spinner_to_working() {
            self.wake_p_slow();
        }
    }

    /// Puts the P into the idle list, and then looks at all queues once more (S2): a thread that made work
    /// meanwhile may have seen no idle P, or may have seen this M spin, and woken nobody.
    fn give_up_idle_p(&self, m: &'static M, p: &'static P) {
        let locked = self.lock();
        if !locked.no_work() || p.retired.load(Ordering::Relaxed) {
            return;
        }
        m.set_p(None);
        locked.put_idle_p(p);
        drop(locked);
        let was_spinning = m.spinning.replace(false);
        let found =
            self.idle.recheck_after_idle(was_spinning, || self.take_idle_p(), || self.work_anywhere());
        if let Some(p) = found {
            m.set_p(Some(p));
            m.spinning.set(true);
        }
    }
}
