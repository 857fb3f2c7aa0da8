//! Finding the next goroutine to run: the diagram of ARCHITECTURE.md in code.
//!
//! `next_local` is the fast path: it may run on the last goroutine's thread pointer and touches no TLS.
//! `find_runnable` looks everywhere else and, when there is nothing, gives the P up and stops the M.

use super::g::G;
use super::global::{self, PROCS, SLEEP};
use super::idle;
use super::m::M;
use super::p::{self, P};
use super::sampler::GLOBAL_EVERY;
use super::{poller, prefetch, procs, steal, wake};
use crate::atomic::Ordering;
use crate::netpoll;
use crate::sys::clock::nanotime;
use crate::timer;

/// So that two goroutines that keep waking each other cannot keep the rest away, `runnext` may win over the ring so many
/// times in a row; for the same reason the global queue comes first at every 61st tick.
const NEXT_STREAK: u32 = 61;

/// While goroutines come and go quickly, the clock is read only at every such tick.
pub(crate) const TIMERS_EVERY: u32 = 8;

/// The next goroutine of this M's own P.
#[inline(never)]
pub(crate) fn next_local(m: &'static M) -> Option<&'static G> {
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
        && let Some(g) = at_rare_tick(p, tick)
    {
        return Some(g);
    }
    if tick % TIMERS_EVERY == 0 {
        timer::check(p);
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
        prefetch::to_be_run(next, m);
        prefetch::head(after as usize);
    }
    let g = if g.is_null() { owner.take_next() } else { g };
    // SAFETY: as above.
    unsafe { g.as_ref() }
}

/// As [`next_local`] when nothing but the ring has to be looked at; `None` when that has to decide.
#[inline(always)]
pub(crate) fn next_in_ring(p: &'static P) -> Option<&'static G> {
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

/// What need not be done at every tick.
#[cold]
fn at_rare_tick(p: &'static P, tick: u32) -> Option<&'static G> {
    let next_wins = p.next_streak.get() < NEXT_STREAK;
    if p.sampler.look(tick, p, next_wins) { take_global_for_fairness(tick) } else { None }
}

/// The oldest of the global queue and of the hogs, in turn.
fn take_global_for_fairness(tick: u32) -> Option<&'static G> {
    if global::queue_len() + global::hogs_len() == 0 {
        return None;
    }
    let mut state = global::lock();
    if (tick / GLOBAL_EVERY).is_multiple_of(2) {
        match state.pop() {
            None => state.pop_hog(),
            found => found,
        }
    } else {
        match state.pop_hog() {
            None => state.pop(),
            found => found,
        }
    }
}

/// A goroutine from anywhere; stops the M when there is none. `None`: the thread shall end.
pub(crate) fn find_runnable(m: &'static M) -> Option<&'static G> {
    loop {
        let Some(p) = m.p() else {
            if !idle::stop_m(m) {
                return None;
            }
            continue;
        };
        if p.retired.load(Ordering::Relaxed) {
            procs::give_up_retired_p(m, p);
            continue;
        }
        p.sampler.forget();
        timer::check(p);
        let own = next_local(m);
        if own.is_none() && p.retired.load(Ordering::Relaxed) {
            continue; // there may be goroutines in its ring, which go with it
        }
        let found =
            own.or_else(|| take_global(p)).or_else(|| poll(m, p)).or_else(take_hog).or_else(|| spin(m, p));
        if let Some(g) = found {
            stop_spinning_with_work(m);
            return Some(g);
        }
        give_up_idle_p(m, p);
        if m.p().is_none() {
            poller::wait(m);
        }
    }
}

/// Takes this P's share of the global queue: the first to run, the others into its own queue.
fn take_global(p: &'static P) -> Option<&'static G> {
    if global::queue_len() == 0 {
        return None;
    }
    // SAFETY: the caller owns the P.
    let owner = unsafe { p.runq.owner() };
    let mut state = global::lock();
    let share = state.len() / PROCS.load(Ordering::Relaxed).max(1) as usize + 1;
    let share = share.min(owner.room() / 2);
    state.pop_share(share, |g| {
        let fits = owner.try_put(std::ptr::from_ref(g).cast_mut());
        debug_assert!(fits, "room was checked");
    })
}

/// So long, in nanoseconds, may nobody have asked for I/O before that comes before the queues of others.
const IO_FIRST_AFTER: u64 = 1_000_000;

/// One whose I/O is ready, if somebody should look for that now. Otherwise others' queues come first: the kernel may have stopped
/// their owner's thread, and whoever always finds I/O would let them wait until it goes on (an HTTP server with 64
/// connections on two busy cores: p99 4.4 → 1.1 ms). And if there is nothing there either, the M asks when it goes to wait.
fn poll(m: &'static M, p: &'static P) -> Option<&'static G> {
    let overdue = || nanotime().saturating_sub(netpoll::last_poll()) >= IO_FIRST_AFTER && work_anywhere();
    let now = netpoll::has_waiters() && (global::hogs_len() != 0 || overdue());
    if now && poller::poll(p) { next_local(m) } else { None }
}

/// A goroutine whose last slice was used up. One at a time: each will want a P for long.
fn take_hog() -> Option<&'static G> {
    if global::hogs_len() == 0 {
        return None;
    }
    global::lock().pop_hog()
}

/// Steals, if not too many do so already.
fn spin(m: &'static M, p: &'static P) -> Option<&'static G> {
    if !m.spinning.get() {
        if !SLEEP.try_spin(PROCS.load(Ordering::Relaxed)) {
            return None;
        }
        m.spinning.set(true);
        p.stats.spins.add(1);
    }
    steal::steal(m, p)
        .or_else(|| {
            steal::run_timers_of_others(p);
            next_local(m)
        })
        .or_else(|| linger(m, p))
}

/// How long a spinner that found nothing waits before it looks again, and again, in nanoseconds. While it spins nobody has
/// to be woken, which costs the waker more than all else that it does; and to sleep and wake up costs more than this.
/// With work that I/O or time bring that does not pay: measured with an echo server, a sixth more CPU time.
const LINGER: [u64; 4] = [1_000, 2_000, 4_000, 8_000];

fn linger(m: &'static M, p: &'static P) -> Option<&'static G> {
    if netpoll::has_waiters() || timer::earliest() != timer::NEVER {
        return None;
    }
    for nanos in LINGER {
        let start = nanotime();
        while nanotime() - start < nanos {
            std::hint::spin_loop();
        }
        if p.retired.load(Ordering::Relaxed) || global::queue_len() != 0 {
            return take_global(p);
        }
        if let Some(g) = steal::steal(m, p) {
            return Some(g);
        }
    }
    None
}

/// A spinner that found work makes room for the next spinner: there may be more.
fn stop_spinning_with_work(m: &'static M) {
    if m.spinning.replace(false) && SLEEP.found_work() {
        wake::wake_p_slow();
    }
}

/// Nothing to do: puts the P into the idle list, and then looks at all queues once more, because whoever made
/// work meanwhile saw no idle P, or saw this M spin, and woke nobody.
fn give_up_idle_p(m: &'static M, p: &'static P) {
    let state = global::lock();
    if !state.is_empty() || p.retired.load(Ordering::Relaxed) {
        return;
    }
    m.set_p(None);
    state.put_idle_p(p);
    drop(state);
    let was_spinning = m.spinning.replace(false);
    if let Some(p) = SLEEP.gave_up_p(was_spinning, take_idle_p, work_anywhere) {
        m.set_p(Some(p));
        m.spinning.set(true);
    }
}

pub(crate) fn take_idle_p() -> Option<&'static P> {
    global::lock().take_idle_p()
}

/// Whether some queue holds a goroutine that is not left to its P. All loads SeqCst; see README.md.
pub(crate) fn work_anywhere() -> bool {
    global::queue_len() != 0
        || global::hogs_len() != 0
        || (0..PROCS.load(Ordering::SeqCst) as usize)
            .filter_map(p::get)
            .any(|p| !p.runq.is_empty() && !p.brisk.keeps(&p.runq))
}
