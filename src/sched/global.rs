//! What all Ms share: the global run queue, the idle Ps and Ms, and the counts of the sleep/wake protocol.
//!
//! `State` is behind one lock, as in Go. The lengths of its queues and `SLEEP` are read without the lock by whoever
//! makes work (`wake.rs`) and by whoever is about to sleep (`find.rs`); README.md argues why no wake-up is lost.

use std::cell::Cell;

use super::g::G;
use super::glist::GList;
use super::lock::{Guard, Lock};
use super::m::M;
use super::p::{MAX_PROCS, P};
use super::sampler::SampledQueue;
use super::sleep::Sleep;
use super::sysmon;
use crate::atomic::{AtomicU32, AtomicU64, CachePadded, Ordering};
use crate::sys::thread;

pub(crate) struct State {
    /// Runnable goroutines that belong to no P.
    queue: SampledQueue,
    /// Those that lost their P in a blocking call and came back. They take turns with the queue and do not wait behind
    /// it: one of them may hold a lock of the user's, and everybody else who is run instead may block there.
    returned: SampledQueue,
    returned_next: Cell<bool>,
    /// Runnable goroutines that were stopped because their slice was over. They come after all others.
    hogs: SampledQueue,
    /// Those of them whose own M waits for them: stopped by a signal, or bound to their thread.
    waited_for: SampledQueue,
    /// Which of these two lists is next.
    turn: Cell<bool>,
    /// Another one was taken before the first of those that are waited for.
    passed_over: Cell<bool>,
    idle_ps: Cell<Option<&'static P>>,
    idle_ms: Cell<Option<&'static M>>,
    idle_m_count: Cell<u32>,
}

// SAFETY: only reached through the lock.
unsafe impl Send for State {}

static STATE: CachePadded<Lock<State>> = CachePadded::new(Lock::new(State {
    queue: SampledQueue::new(),
    returned: SampledQueue::new(),
    returned_next: Cell::new(false),
    hogs: SampledQueue::new(),
    waited_for: SampledQueue::new(),
    turn: Cell::new(false),
    passed_over: Cell::new(false),
    idle_ps: Cell::new(None),
    idle_ms: Cell::new(None),
    idle_m_count: Cell::new(0),
}));

/// Lengths of the two global queues. SeqCst where the sleep/wake protocol reads them.
static QUEUE_LEN: AtomicU32 = AtomicU32::new(0);
static HOGS_LEN: AtomicU32 = AtomicU32::new(0);
/// Who sleeps and who spins.
pub(crate) static SLEEP: Sleep = Sleep::new(AtomicU32::new(0), AtomicU32::new(0));
/// GOMAXPROCS.
pub(crate) static PROCS: AtomicU32 = AtomicU32::new(0);
/// One bit for each idle P: thieves skip those.
static IDLE_MASK: [AtomicU64; MAX_PROCS / 64] = [const { AtomicU64::new(0) }; MAX_PROCS / 64];

/// Locks the shared state. On g0, in a section, or on a thread of the runtime's own.
pub(crate) fn lock() -> Guard<'static, State> {
    STATE.lock_inside()
}

/// Length of the global queue at some moment.
#[inline]
pub(crate) fn queue_len() -> u32 {
    QUEUE_LEN.load(Ordering::SeqCst)
}

/// How many goroutines whose slice was over wait, at some moment.
#[inline]
pub(crate) fn hogs_len() -> u32 {
    HOGS_LEN.load(Ordering::SeqCst)
}

/// Whether that P was idle at some moment.
#[inline]
pub(crate) fn is_idle(p: usize) -> bool {
    IDLE_MASK[p / 64].load(Ordering::Relaxed) & (1 << (p % 64)) != 0
}

impl State {
    /// Appends to the global queue.
    pub(crate) fn push(&mut self, g: &'static G) {
        self.queue.push_back(g);
        self.publish_len();
    }

    /// Appends one that came back from a blocking call and found no P.
    pub(crate) fn push_returned(&mut self, g: &'static G) {
        self.returned.push_back(g);
        self.publish_len();
    }

    /// Appends a whole list.
    pub(crate) fn push_list(&mut self, list: &GList) {
        while let Some(g) = list.pop_front() {
            self.queue.push_back(g);
        }
        self.publish_len();
    }

    /// Appends goroutines that a run queue held.
    ///
    /// # Safety
    /// The pointers are Gs, and the caller owns them.
    pub(crate) unsafe fn push_batch(&mut self, batch: &[*mut G]) {
        for g in batch {
            // SAFETY: the caller's promise.
            self.queue.push_back(unsafe { &**g });
        }
        self.publish_len();
    }

    pub(crate) fn pop(&mut self) -> Option<&'static G> {
        let g = self.pop_unpublished();
        self.publish_len();
        g
    }

    fn pop_unpublished(&mut self) -> Option<&'static G> {
        let (first, second) = if self.returned_next.replace(!self.returned_next.get()) {
            (&mut self.returned, &mut self.queue)
        } else {
            (&mut self.queue, &mut self.returned)
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// Takes up to `count` at once: returns the first and gives the others to `each`, which puts them into a
    /// run queue. The length is published last, so that whoever finds the global queue empty without the
    /// lock finds them there.
    pub(crate) fn pop_share(&mut self, count: usize, each: impl Fn(&'static G)) -> Option<&'static G> {
        let first = self.pop_unpublished()?;
        for _ in 1..count {
            // One that has returned goes on at once or stays: in a run queue it would wait behind others again.
            let Some(g) = self.queue.pop_front() else { break };
            each(g);
        }
        self.publish_len();
        Some(first)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.returned.len()
    }

    /// Appends a goroutine whose slice is over.
    pub(crate) fn push_hog(&mut self, g: &'static G) {
        let list = if g.locked_m.get().is_some() { &mut self.waited_for } else { &mut self.hogs };
        list.push_back(g);
        self.publish_hogs_len();
    }

    pub(crate) fn pop_hog(&mut self) -> Option<&'static G> {
        let turn = self.turn.replace(!self.turn.get());
        if !turn || self.hogs.len() == 0 {
            self.prefer_near();
        }
        let (first, second) = if turn {
            (&mut self.hogs, &mut self.waited_for)
        } else {
            (&mut self.waited_for, &mut self.hogs)
        };
        let g = first.pop_front().or_else(|| second.pop_front());
        self.publish_hogs_len();
        g
    }

    /// As [`pop_hog`](State::pop_hog), but only a goroutine whose M waits: it needs nothing but a P. If the caller is about to
    /// sleep, call [`prefer_near`](State::prefer_near) before.
    pub(crate) fn pop_waited_for(&mut self) -> Option<&'static G> {
        let g = self.waited_for.pop_front();
        self.publish_hogs_len();
        g
    }

    /// Of the first two that are waited for, one that was last on the caller's CPU goes first. The kernel wakes a thread where
    /// it was: if that CPU is busy with another hog and the caller is about to sleep, the caller's has nothing to do until
    /// the kernel notices, often for milliseconds.
    ///
    /// Who is first is passed over once at the most, and those further behind are not preferred: each CPU would come to have
    /// hogs of its own, and not equally many.
    pub(crate) fn prefer_near(&mut self) {
        let may_wait = !self.passed_over.get() && self.waited_for.len() > 1;
        let cpu = if may_wait { thread::cpu() } else { 0 };
        let was_here = |g: &'static G| g.locked_m.get().is_some_and(|m| m.cpu.get() == cpu);
        self.passed_over.set(may_wait && self.waited_for.prefer_second(was_here));
    }

    /// Whether nobody waits but goroutines whose M does.
    pub(crate) fn only_waited_for(&self) -> bool {
        self.len() + self.hogs.len() == 0 && self.waited_for.len() != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() + self.hogs.len() + self.waited_for.len() == 0
    }

    fn publish_hogs_len(&self) {
        HOGS_LEN.store((self.hogs.len() + self.waited_for.len()) as u32, Ordering::SeqCst);
    }

    fn publish_len(&self) {
        QUEUE_LEN.store(self.len() as u32, Ordering::SeqCst);
    }

    /// Gives up a P whose run queue is empty (P2). Then, without the lock, look at all queues (S2).
    pub(crate) fn put_idle_p(&self, p: &'static P) {
        debug_assert!(p.runq.is_empty());
        p.link.set(self.idle_ps.get());
        self.idle_ps.set(Some(p));
        IDLE_MASK[p.id as usize / 64].fetch_or(1 << (p.id % 64), Ordering::Relaxed);
        SLEEP.p_idle();
    }

    pub(crate) fn has_idle_p(&self) -> bool {
        self.idle_ps.get().is_some()
    }

    pub(crate) fn take_idle_p(&self) -> Option<&'static P> {
        let p = self.idle_ps.get()?;
        self.idle_ps.set(p.link.take());
        self.no_longer_idle(p);
        sysmon::wake_if_asleep();
        Some(p)
    }

    /// Takes that very P out of the idle list, if it is there.
    pub(crate) fn take_this_idle_p(&self, wanted: &'static P) -> bool {
        let mut link = &self.idle_ps;
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
        IDLE_MASK[p.id as usize / 64].fetch_and(!(1 << (p.id % 64)), Ordering::Relaxed);
        SLEEP.p_busy();
    }

    pub(crate) fn put_idle_m(&self, m: &'static M) {
        m.link.set(self.idle_ms.get());
        m.idle.set(true);
        self.idle_ms.set(Some(m));
        self.idle_m_count.set(self.idle_m_count.get() + 1);
    }

    pub(crate) fn take_idle_m(&self) -> Option<&'static M> {
        self.unlink_idle_m(1, |_| true)
    }

    /// One that was last on the caller's CPU, if there is one: see `prefer_near`.
    pub(crate) fn take_near_idle_m(&self) -> Option<&'static M> {
        let cpu = thread::cpu();
        self.unlink_idle_m(4, |m| m.cpu.get() == cpu).or_else(|| self.take_idle_m())
    }

    /// Takes the first one that is wanted, among so many.
    fn unlink_idle_m(&self, among: usize, wanted: impl Fn(&'static M) -> bool) -> Option<&'static M> {
        let mut link = &self.idle_ms;
        for _ in 0..among {
            let m = link.get()?;
            if wanted(m) {
                link.set(m.link.take());
                m.idle.set(false);
                self.idle_m_count.set(self.idle_m_count.get() - 1);
                return Some(m);
            }
            link = &m.link;
        }
        None
    }

    pub(crate) fn idle_m_count(&self) -> u32 {
        self.idle_m_count.get()
    }

    /// Takes that very M out of the idle list, if it is there and others remain beyond `keep`.
    pub(crate) fn retire_idle_m(&self, m: &'static M, keep: u32) -> bool {
        m.idle.get()
            && self.idle_m_count.get() > keep
            && self.unlink_idle_m(usize::MAX, |other| std::ptr::eq(other, m)).is_some()
    }
}
