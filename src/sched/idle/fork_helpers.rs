//! Pending forks as work for Ms: an M that finds nothing else to do takes an idle *helper*, a goroutine that
//! steals a fork and runs it. `goroutine/fork/` has `join`, which makes forks, and the helpers' code.
//!
//! A pending fork is no goroutine, and an M cannot run it by itself: the fork may block. So forks count as
//! work for the idle protocol (`work_anywhere`) while a helper is idle:
//!
//! > *forks wait* = some deque is not empty, and a helper is idle.
//!
//! Both parts can come last, and the thread that brings the last one asks whether to wake an M, as every
//! maker of work (S1): `join` after its push ([`an_m_is_needed`]), a helper after it entered the list
//! ([`enter`](ForkHelpers::enter)).
//!
//! A helper is *idle* (parked, or about to, in the list), *coming* (an M took it out of the list, or it was
//! started, and has not looked at the deques yet), or *at work*.
//!
//! - J1. A helper that took a fork makes sure, before it runs it, that another helper is idle or starting
//!   ([`needs_another`](ForkHelpers::needs_another)). So at any time one is idle or coming. (Without memory
//!   for a goroutine this does not hold; then forks wait until a helper is done, or their owner runs them.)
//! - J2. A helper rests only after it found no fork, or for the goroutines that wait for its P.
//!
//! Forks come after the goroutines in all queues, because somebody runs their owners, too, and may soon come
//! to them. Two cases need more:
//!
//! - The owner waits in the first half, or is in a marked blocking call, perhaps for something that the
//!   second half does. Such forks come before goroutines that used up a slice ([`Reach::OfWaiting`]).
//! - The owner blocks unmarked, or its first half waits in a loop. So now and then all forks have their turn
//!   (`FORKS_EVERY` in `run/find_runnable.rs`); where goroutines never leave an M the time to look for work,
//!   at a rare tick. sysmon treats pending forks as waiting goroutines, so slices end.
//!
//! **A push has no barrier** between its store and its look at the idle Ps, because it is the fast path of
//! `join`. An M that becomes idle in the nanoseconds in which the store is on its way to the cache may miss
//! the fork, and the pusher the idle P. The next push on that goroutine sees the P; if there is none, sysmon
//! does at its next look. The first push of an outermost `join` has a barrier.
//!
//! Checked by `cargo test --release -p gort-loom idle::` (a_pending_fork_is_seen,
//! a_fork_is_seen_when_a_helper_rests); the deque and the frame by `fork::`.

use std::ptr;

use crate::base::atomic::{AtomicU32, CachePadded, Ordering};
use crate::base::lock::{Lock, Rank, Ranked};
use crate::sched::event;
use crate::sched::machine::SCHED;
use crate::sched::queue::fork_deque::Stolen;
use crate::sched::queue::fork_table::{Fork, ForkPlace};
use crate::sched::types::g::G;
use crate::sched::types::p::P;
use crate::sched::word::status::Status;

/// The most helpers that are kept while they are idle.
const MOST_IDLE: u32 = 64;

/// The helpers that are idle.
pub(crate) struct ForkHelpers {
    list: Lock<List>,
    /// The length of the list, for threads that do not have the lock.
    idle: CachePadded<AtomicU32>,
}

struct List {
    /// Last in, first out, so that as few as possible are in use.
    first: *const IdleHelper,
    /// A helper was started that has not looked at the deques yet.
    starting: bool,
}

impl Ranked for List {
    const RANK: Rank = Rank::Alone;
}

// SAFETY: an `IdleHelper` stays in place until its goroutine is out of the list and readied.
unsafe impl Send for List {}

/// An idle helper; lies on its stack.
pub(crate) struct IdleHelper {
    g: &'static G,
    next: *const IdleHelper,
}

impl IdleHelper {
    pub(crate) fn new(g: &'static G) -> IdleHelper {
        IdleHelper { g, next: ptr::null() }
    }
}

/// Which forks a search is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those whose owner waits or is in a blocking call.
    OfWaiting,
    All,
}

impl Reach {
    fn covers(self, place: &ForkPlace) -> bool {
        self == Reach::All || {
            // SAFETY: an owner is the address of a G, which are never unmapped. It was set before the first
            // push, which the caller has seen.
            let owner = unsafe { (place.owner() as *const G).as_ref() };
            owner.is_some_and(|g| matches!(g.status(), Status::Waiting | Status::Syscall))
        }
    }
}

impl ForkHelpers {
    pub(crate) const fn new() -> ForkHelpers {
        ForkHelpers {
            list: Lock::new(List { first: ptr::null(), starting: false }),
            idle: CachePadded::new(AtomicU32::new(0)),
        }
    }

    fn helper_is_idle(&self) -> bool {
        // SeqCst: one of the two parts of "forks wait", which the idle protocol reads.
        self.idle.load(Ordering::SeqCst) != 0
    }

    /// How many helpers are idle.
    pub(crate) fn idle(&self) -> usize {
        self.idle.load(Ordering::Relaxed) as usize
    }

    /// Whether forks wait that an M could take a helper for.
    pub(crate) fn forks_wait(&self) -> bool {
        self.helper_is_idle() && find(Reach::All, 0).is_some()
    }

    /// For an M with a P: takes an idle helper if forks wait. The helper belongs to the caller, which runs
    /// it.
    pub(crate) fn take(&self, reach: Reach) -> Option<&'static G> {
        if !self.helper_is_idle() || find(reach, 0).is_none() {
            return None;
        }
        let mut list = self.list.lock_inside();
        // SAFETY: in the list, hence its goroutine waits.
        let helper = unsafe { list.first.as_ref() }?;
        list.first = helper.next;
        let g = helper.g;
        self.idle.fetch_sub(1, Ordering::SeqCst);
        drop(list);
        if !g.park.notify() {
            return None; // it has not stopped yet, and goes on by itself: it is coming
        }
        if event::is_on() {
            SCHED.platform.unblocked_anywhere(g);
        }
        g.set_status(Status::Runnable);
        Some(g)
    }

    /// Called by a helper that was started, at its first step.
    pub(crate) fn has_started(&self) {
        self.list.lock().starting = false;
    }

    /// Whether the caller must start a helper (J1). If it cannot, it calls
    /// [`has_started`](ForkHelpers::has_started).
    #[must_use]
    pub(crate) fn needs_another(&self) -> bool {
        if self.helper_is_idle() {
            return false; // if an M takes that one, it will see to the next one
        }
        let mut list = self.list.lock();
        list.first.is_null() && !std::mem::replace(&mut list.starting, true)
    }

    /// Enters the list; the caller parks next, in the same section. False: there are enough idle helpers.
    ///
    /// # Safety
    /// `own` stays in place until the park has ended.
    #[must_use]
    pub(crate) unsafe fn enter(&self, own: &mut IdleHelper) -> bool {
        let mut list = self.list.lock_inside();
        if self.idle.load(Ordering::Relaxed) >= MOST_IDLE {
            return false;
        }
        own.next = list.first;
        list.first = own;
        self.idle.fetch_add(1, Ordering::SeqCst);
        drop(list);
        // S1: with this helper, forks may be work for which nobody was woken.
        if SCHED.idle.should_wake() && self.forks_wait() {
            SCHED.wake_p_slow();
        }
        true
    }
}

/// A place with pending forks. `start` varies the order.
fn find(reach: Reach, start: usize) -> Option<&'static ForkPlace> {
    SCHED.all_ps().flat_map(|p| p.forks.pending(start)).find(|place| reach.covers(place))
}

/// For a goroutine that has pushed a fork: whether it should wake an M (S1).
pub(crate) fn an_m_is_needed() -> bool {
    SCHED.idle.should_wake() && SCHED.platform.forks.helper_is_idle()
}

/// For a helper: steals a fork, one of a waiting goroutine first. `seed` varies where the search begins, so
/// that each fork has its turn.
pub(crate) fn steal(seed: usize) -> Option<*mut Fork> {
    steal_within(Reach::OfWaiting, seed).or_else(|| steal_within(Reach::All, seed))
}

fn steal_within(reach: Reach, seed: usize) -> Option<*mut Fork> {
    let ps: usize = SCHED.all_ps().count();
    let order = (0..ps).filter_map(|number| SCHED.p((seed + number) % ps));
    for place in order.flat_map(|p: &'static P| p.forks.pending(seed / ps.max(1))) {
        while reach.covers(place) {
            match place.steal() {
                Stolen::Fork(fork) => return Some(fork),
                Stolen::Lost => {}
                Stolen::Empty => break,
            }
        }
    }
    None
}
