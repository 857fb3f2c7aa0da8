//! `Sched`: what all Ms share, as Go's `schedt`. The process has one (`machine.rs`); models and simulators
//! build their own.
//!
//! The queues and the lists of idle Ps and Ms are behind one lock ([`Sched::lock`]), as in Go. The lengths of
//! the queues and the counts of the idle protocol are read without the lock by threads that make work
//! (`idle/ready.rs`) and by Ms that are about to sleep (`run/find_runnable.rs`); README.md argues why no
//! wake-up is lost.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32 as PlainU32, AtomicU64 as PlainU64};

use super::idle_protocol::IdleProtocol;
use super::platform::Platform;
use super::queue::global_queue::{GlobalQueue, Lane};
use super::queue::histogram::Histogram;
use super::queue::latency_sampler::Clock;
use super::queue::preempted_queue::PreemptedQueue;
use super::types::g::{G, GList};
use super::types::m::M;
use super::types::p::P;
use crate::base::atomic::{AtomicU32, CachePadded, MAX_PROCS, Ordering};
use crate::base::lock::{Guard, Lock, Rank, Ranked};

pub(crate) struct Sched<X> {
    pub(crate) platform: X,
    /// How many Ps are idle, and how many Ms look for work.
    pub(crate) idle: IdleProtocol,
    pub(crate) lists: CachePadded<Lock<Lists>>,
    /// Lengths of the two global queues. SeqCst where the idle protocol reads them.
    pub(crate) global_len: CachePadded<AtomicU32>,
    pub(crate) preempted_len: CachePadded<AtomicU32>,
    /// GOMAXPROCS.
    pub(crate) procs: PlainU32,
    /// All Ps ever made, by id. They are never freed.
    pub(crate) ps: [OnceLock<&'static P>; MAX_PROCS],
    /// One bit for each idle P: thieves skip those.
    pub(crate) idle_mask: CachePadded<[PlainU64; IDLE_WORDS]>,
    /// How long goroutines were in the global queues (ns).
    pub(crate) global_latencies: Histogram,
}

/// Words of `idle_mask`.
pub(crate) const IDLE_WORDS: usize = MAX_PROCS.div_ceil(64);

/// Builds a `Sched` around a platform. It is a macro because a static needs a constant expression, and loom's
/// atomics have no const constructor.
macro_rules! new_sched {
    ($platform:expr) => {{
        use $crate::base::atomic::{AtomicU32, CachePadded, MAX_PROCS};
        use $crate::base::lock::Lock;
        use $crate::sched::idle_protocol::IdleProtocol;
        use $crate::sched::queue::histogram::Histogram;
        use $crate::sched::schedt::{IDLE_WORDS, Lists, Sched};
        Sched {
            platform: $platform,
            idle: IdleProtocol::new(AtomicU32::new(0), AtomicU32::new(0)),
            lists: CachePadded::new(Lock::new(Lists::new())),
            global_len: CachePadded::new(AtomicU32::new(0)),
            preempted_len: CachePadded::new(AtomicU32::new(0)),
            procs: std::sync::atomic::AtomicU32::new(0),
            ps: [const { std::sync::OnceLock::new() }; MAX_PROCS],
            idle_mask: CachePadded::new([const { std::sync::atomic::AtomicU64::new(0) }; IDLE_WORDS]),
            global_latencies: Histogram::new(),
        }
    }};
}
pub(crate) use new_sched;

/// What is behind the scheduler lock.
pub(crate) struct Lists {
    global: GlobalQueue<G>,
    preempted: PreemptedQueue<G>,
    idle_ps: Cell<Option<&'static P>>,
    idle_ms: Cell<Option<&'static M>>,
    idle_m_count: Cell<u32>,
}

impl Ranked for Lists {
    const RANK: Rank = Rank::Sched;
}

// SAFETY: only reached through the lock.
unsafe impl Send for Lists {}

impl Lists {
    pub(crate) const fn new() -> Lists {
        Lists {
            global: GlobalQueue::new(),
            preempted: PreemptedQueue::new(),
            idle_ps: Cell::new(None),
            idle_ms: Cell::new(None),
            idle_m_count: Cell::new(0),
        }
    }
}

impl<X: Platform> Sched<X> {
    /// Takes the scheduler lock. The caller is on g0, in a runtime section, or on a service thread of the
    /// runtime.
    pub(crate) fn lock(&self) -> Locked<'_, X> {
        Locked { sched: self, lists: self.lists.lock_inside() }
    }

    /// Length of the global queue; may be out of date at once.
    #[inline]
    pub(crate) fn global_len(&self) -> u32 {
        self.global_len.load(Ordering::SeqCst)
    }

    /// How many preempted goroutines wait; may be out of date at once.
    #[inline]
    pub(crate) fn preempted_len(&self) -> u32 {
        self.preempted_len.load(Ordering::SeqCst)
    }

    /// GOMAXPROCS.
    #[inline]
    pub(crate) fn procs(&self) -> usize {
        self.procs.load(Ordering::Relaxed) as usize
    }

    /// The P of that id, if it has been made.
    #[inline]
    pub(crate) fn p(&self, id: usize) -> Option<&'static P> {
        self.ps[id].get().copied()
    }

    /// Every P ever made.
    pub(crate) fn all_ps(&self) -> impl Iterator<Item = &'static P> {
        self.ps.iter().map_while(|p| p.get().copied())
    }

    /// The Ps in use.
    pub(crate) fn ps_in_use(&self) -> impl Iterator<Item = &'static P> {
        self.ps[..self.procs.load(Ordering::SeqCst) as usize].iter().filter_map(|p| p.get().copied())
    }

    /// Whether that P is idle; may be out of date at once.
    #[inline]
    pub(crate) fn is_idle(&self, p: usize) -> bool {
        self.idle_mask[p / 64].load(Ordering::Relaxed) & (1 << (p % 64)) != 0
    }

    /// Whether all Ps are idle. SeqCst, because sysmon's decision to sleep relies on it.
    pub(crate) fn all_ps_idle(&self) -> bool {
        self.idle.idle() >= self.procs.load(Ordering::SeqCst)
    }

    /// Whether there is work that an M could take: a goroutine in some queue, or forks. All loads are SeqCst;
    /// see README.md.
    pub(crate) fn work_anywhere(&self) -> bool {
        self.goroutine_is_queued() || self.platform.forks_wait()
    }

    /// Whether some queue holds a goroutine, not counting what a brisk P keeps (`queue/deferred_wake.rs`).
    pub(crate) fn goroutine_is_queued(&self) -> bool {
        self.global_len() != 0
            || self.preempted_len() != 0
            || self.ps_in_use().any(|p| !p.runq.is_empty() && !p.deferred_wake.keeps(&p.runq))
    }

    /// Takes any idle P.
    pub(crate) fn take_idle_p(&self) -> Option<&'static P> {
        self.lock().take_idle_p()
    }

    /// Whether the thread of the M that waits for `g` was last on the caller's CPU.
    fn was_here(&self) -> impl Fn(&'static G) -> bool {
        |g| g.locked_m.get().is_some_and(|m| m.cpu.get() == self.platform.cpu())
    }
}

/// The scheduler lock, held.
pub(crate) struct Locked<'a, X: Platform> {
    sched: &'a Sched<X>,
    lists: Guard<'a, Lists>,
}

impl<X: Platform> Locked<'_, X> {
    fn change_global<R>(&mut self, change: impl FnOnce(&mut GlobalQueue<G>, Clock<'_>) -> R) -> R {
        let now = || self.sched.platform.now();
        let result =
            change(&mut self.lists.global, Clock { now: &now, latencies: &self.sched.global_latencies });
        self.sched.global_len.store(self.lists.global.len() as u32, Ordering::SeqCst);
        result
    }

    fn change_preempted<R>(&mut self, change: impl FnOnce(&mut PreemptedQueue<G>, Clock<'_>) -> R) -> R {
        let now = || self.sched.platform.now();
        let result =
            change(&mut self.lists.preempted, Clock { now: &now, latencies: &self.sched.global_latencies });
        self.sched.preempted_len.store(self.lists.preempted.len() as u32, Ordering::SeqCst);
        result
    }

    /// Where a goroutine goes in the global queue. In a burst of blocking calls, one that a timer or I/O woke
    /// does not wait behind those that may block.
    fn lane_of(&self) -> impl Fn(&'static G) -> Lane + use<X> {
        let in_burst = self.sched.platform.in_burst();
        move |g| if in_burst && g.waited_for_time_or_io() { Lane::Urgent } else { Lane::Common }
    }

    /// Appends to the global queue.
    pub(crate) fn push_global(&mut self, g: &'static G) {
        let lane_of = self.lane_of();
        self.change_global(|queue, clock| queue.push(lane_of(g), g, clock));
    }

    /// Appends a goroutine that came back from a blocking call and found no P.
    pub(crate) fn push_returned(&mut self, g: &'static G) {
        self.change_global(|queue, clock| queue.push(Lane::Returned, g, clock));
    }

    /// Appends a goroutine that was to run next on a P that lost its M.
    pub(crate) fn push_urgent(&mut self, g: &'static G) {
        self.change_global(|queue, clock| queue.push(Lane::Urgent, g, clock));
    }

    /// Appends a whole list to the global queue.
    pub(crate) fn push_global_list(&mut self, list: &GList) {
        let lane_of = self.lane_of();
        self.change_global(|queue, clock| {
            while let Some(g) = list.pop_front() {
                queue.push(lane_of(g), g, clock);
            }
        });
    }

    /// Appends goroutines that a run queue held.
    ///
    /// # Safety
    /// The pointers are Gs, and the caller owns them.
    pub(crate) unsafe fn push_global_batch(&mut self, batch: &[*mut G]) {
        let lane_of = self.lane_of();
        self.change_global(|queue, clock| {
            for g in batch {
                // SAFETY: the caller's promise.
                let g = unsafe { &**g };
                queue.push(lane_of(g), g, clock);
            }
        });
    }

    /// For the beginning of a burst: the goroutines that wait already go where they would go now. Does
    /// nothing if the global queue is very long, because all Ms need its lock.
    pub(crate) fn sort_global(&mut self) {
        const MOST: usize = 16_384;
        let lane_of = self.lane_of();
        self.change_global(|queue, clock| queue.sort(MOST, clock, lane_of));
    }

    pub(crate) fn pop_global(&mut self) -> Option<&'static G> {
        self.change_global(|queue, clock| queue.pop(clock))
    }

    /// Takes up to `count` at once: returns the first and gives the others to `each`, which puts them into a
    /// run queue. The length is published last, so that a thread that reads length 0 without the lock finds
    /// them in that run queue.
    pub(crate) fn pop_global_share(&mut self, count: usize, each: impl Fn(&'static G)) -> Option<&'static G> {
        self.change_global(|queue, clock| queue.pop_share(count, clock, each))
    }

    /// Takes a goroutine that is bound to an M, if one is among the first `count` of the global queue. See
    /// [`GlobalQueue::pop_wanted`].
    pub(crate) fn pop_global_bound(&mut self, count: usize) -> Option<&'static G> {
        self.change_global(|queue, clock| queue.pop_wanted(count, clock, |g| g.locked_m.get().is_some()))
    }

    pub(crate) fn global_len(&self) -> usize {
        self.lists.global.len()
    }

    /// Appends a goroutine whose slice is over.
    pub(crate) fn push_preempted(&mut self, g: &'static G) {
        let on_own_m = g.locked_m.get().is_some();
        self.change_preempted(|queue, clock| queue.push(g, on_own_m, clock));
    }

    pub(crate) fn pop_preempted(&mut self) -> Option<&'static G> {
        let was_here = self.sched.was_here();
        self.change_preempted(|queue, clock| queue.pop(clock, was_here))
    }

    /// See [`PreemptedQueue::pop_on_own_m`].
    pub(crate) fn pop_on_own_m(&mut self) -> Option<&'static G> {
        self.change_preempted(|queue, clock| queue.pop_on_own_m(clock))
    }

    /// See [`PreemptedQueue::prefer_near`].
    pub(crate) fn prefer_near(&mut self) {
        let was_here = self.sched.was_here();
        self.lists.preempted.prefer_near(was_here);
    }

    /// Whether the only goroutines queued here are ones whose own M waits for them.
    pub(crate) fn only_on_own_m(&self) -> bool {
        self.lists.global.len() == 0 && self.lists.preempted.only_on_own_m()
    }

    pub(crate) fn no_work(&self) -> bool {
        self.lists.global.len() + self.lists.preempted.len() == 0
    }

    /// Gives up a P whose run queue is empty (P2). The caller must release the lock and then look at all
    /// queues (S2).
    pub(crate) fn put_idle_p(&self, p: &'static P) {
        debug_assert!(p.runq.is_empty());
        p.link.set(self.lists.idle_ps.get());
        self.lists.idle_ps.set(Some(p));
        self.sched.idle_mask[p.id as usize / 64].fetch_or(1 << (p.id % 64), Ordering::Relaxed);
        self.sched.idle.transition_p_to_idle();
    }

    pub(crate) fn has_idle_p(&self) -> bool {
        self.lists.idle_ps.get().is_some()
    }

    /// The idle Ps. While the lock is held, they belong to its holder.
    pub(crate) fn idle_ps(&self) -> impl Iterator<Item = &'static P> {
        std::iter::successors(self.lists.idle_ps.get(), |p| p.link.get())
    }

    pub(crate) fn take_idle_p(&self) -> Option<&'static P> {
        let p = self.take_idle_p_untold()?;
        self.sched.platform.p_became_busy();
        Some(p)
    }

    /// As [`take_idle_p`](Locked::take_idle_p); the caller tells sysmon that the P is busy.
    pub(crate) fn take_idle_p_untold(&self) -> Option<&'static P> {
        let p = self.lists.idle_ps.get()?;
        self.lists.idle_ps.set(p.link.take());
        self.no_longer_idle(p);
        Some(p)
    }

    /// Takes `wanted` out of the idle list, if it is there.
    pub(crate) fn take_this_idle_p(&self, wanted: &'static P) -> bool {
        let mut link = &self.lists.idle_ps;
        while let Some(p) = link.get() {
            if std::ptr::eq(p, wanted) {
                link.set(p.link.take());
                self.no_longer_idle(p);
                return true;
            }
            link = &p.link;
        }
        false
    }

    fn no_longer_idle(&self, p: &P) {
        self.sched.idle_mask[p.id as usize / 64].fetch_and(!(1 << (p.id % 64)), Ordering::Relaxed);
        self.sched.idle.transition_p_to_busy();
    }

    pub(crate) fn put_idle_m(&self, m: &'static M) {
        m.link.set(self.lists.idle_ms.get());
        m.idle.set(true);
        self.lists.idle_ms.set(Some(m));
        self.lists.idle_m_count.set(self.lists.idle_m_count.get() + 1);
    }

    pub(crate) fn take_idle_m(&self) -> Option<&'static M> {
        self.unlink_idle_m(1, |_| true)
    }

    /// Takes an idle M that was last on the caller's CPU, if one is among the first four of the list, else
    /// the first. Why: see [`PreemptedQueue::prefer_near`].
    pub(crate) fn take_near_idle_m(&self) -> Option<&'static M> {
        let cpu = self.sched.platform.cpu();
        self.unlink_idle_m(4, |m| m.cpu.get() == cpu).or_else(|| self.take_idle_m())
    }

    /// Takes the first of the first `among` Ms that `wanted` accepts.
    fn unlink_idle_m(&self, among: usize, wanted: impl Fn(&'static M) -> bool) -> Option<&'static M> {
        let mut link = &self.lists.idle_ms;
        for _ in 0..among {
            let m = link.get()?;
            if wanted(m) {
                link.set(m.link.take());
                m.idle.set(false);
                self.lists.idle_m_count.set(self.lists.idle_m_count.get() - 1);
                return Some(m);
            }
            link = &m.link;
        }
        None
    }

    pub(crate) fn idle_m_count(&self) -> u32 {
        self.lists.idle_m_count.get()
    }

    /// Takes `m` out of the idle list, if it is there and more than `keep` Ms are.
    pub(crate) fn retire_idle_m(&self, m: &'static M, keep: u32) -> bool {
        m.idle.get()
            && self.lists.idle_m_count.get() > keep
            && self.unlink_idle_m(usize::MAX, |other| std::ptr::eq(other, m)).is_some()
    }
}
