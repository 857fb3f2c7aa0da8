//! P: a processor, the right to run goroutines. There are GOMAXPROCS of them.
//!
//! - P1. A P belongs to one M at a time, or to the idle list, or (retired) to nobody. Its owner alone touches
//!   its `Cell`s, the owner side of its run queue and its caches; ownership passes through the scheduler lock
//!   or an M's Note.
//! - P2. An idle P's run queue is empty.
//! - P3. Ps are never freed: shrinking GOMAXPROCS retires them, growing takes them back.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::g::G;
use super::m::M;
use super::wait_times::WaitTimes;
use crate::base::atomic::CachePadded;
use crate::base::free_list::FreeList;
use crate::sched::event;
use crate::sched::queue::deferred_wake::DeferredWake;
use crate::sched::queue::fork_table::ForkTable;
use crate::sched::queue::latency_sampler::Sampler;
use crate::sched::queue::runq::RunQueue;
use crate::stack::cache;
use crate::timer::Timers;

pub(crate) struct P {
    pub(crate) id: u32,
    pub(crate) runq: CachePadded<RunQueue<G>>,
    /// The M that has it or had it last; null if it was never used, or was retired and given up.
    pub(crate) m: AtomicPtr<M>,
    /// Its M is in a blocking call. The thread that changes this to false then owns the P.
    pub(crate) in_syscall: AtomicBool,
    /// The CPU that its M ran on when it last stole: see `run/steal.rs`.
    pub(crate) cpu: AtomicU32,
    /// Counts entries into blocking calls.
    pub(crate) syscall_tick: AtomicU32,
    /// Set by other threads: the running goroutine should give up the P at its next runtime call.
    pub(crate) preempt: AtomicBool,
    /// GOMAXPROCS shrank: the owner must give this P up for good.
    pub(crate) retired: AtomicBool,
    /// Its goroutines take turns quickly: see `queue/deferred_wake.rs`.
    pub(crate) deferred_wake: DeferredWake,
    /// Counts schedule decisions; sysmon compares it to see whether the same slice still runs.
    pub(crate) tick: AtomicU32,
    /// How many times in a row the P took `runnext` instead of the ring's head.
    pub(crate) next_streak: Cell<u32>,
    /// How often its M has looked for pending forks (`run/find_runnable.rs`).
    pub(crate) fork_looks: Cell<u32>,
    /// Slots of ended goroutines, ready for reuse.
    slots: UnsafeCell<cache::Local>,
    /// Blocks for the packets of new goroutines (`run/small_blocks.rs`).
    pub(crate) blocks: FreeList,
    /// Ids that this P may give to new goroutines: the next one and the end.
    pub(crate) ids: Cell<(u64, u64)>,
    /// The next P in the idle list.
    pub(crate) link: Cell<Option<&'static P>>,
    pub(crate) timers: Timers,
    /// The pending forks of goroutines that began to fork on this P. For any thread.
    pub(crate) forks: ForkTable,
    pub(crate) stats: Stats,
    pub(crate) sampler: Sampler,
    /// The waits that its owners ended, while they are measured.
    pub(crate) wait_times: WaitTimes,
}

// SAFETY: see P1.
unsafe impl Sync for P {}

/// Counters that only the owner of the P writes; any thread may read them.
#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) created: Counter,
    pub(crate) ended: Counter,
    pub(crate) parks: Counter,
    pub(crate) yields: Counter,
    pub(crate) steals: Counter,
    pub(crate) stolen: Counter,
    pub(crate) spins: Counter,
    pub(crate) overflows: Counter,
    pub(crate) hand_offs: Counter,
    pub(crate) syscalls: Counter,
    pub(crate) preempted: Counter,
    pub(crate) preempted_by_signal: Counter,
    /// The P from which it stole last, plus one; 0: it has not stolen yet.
    pub(crate) last_victim: AtomicU32,
}

/// A count with one writer at a time.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl P {
    /// Clears the preemption request: the running goroutine has stopped. The flag of a retired P stays set
    /// until its owner gives the P up: a goroutine that was readied just now may run on with it, and must
    /// stop again soon. (A request that arrives at the same time may be lost; sysmon repeats it.)
    #[inline]
    pub(crate) fn answer_preempt(&self) {
        if !self.retired.load(Ordering::Relaxed) {
            self.preempt.store(false, Ordering::Relaxed);
        }
    }

    /// Called by a new owner that already has a goroutine to run: starts a new slice.
    pub(crate) fn begin_slice(&self) {
        self.tick.store(self.tick.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn new(id: u32) -> P {
        P {
            id,
            runq: CachePadded::new(RunQueue::new()),
            m: AtomicPtr::new(std::ptr::null_mut()),
            in_syscall: AtomicBool::new(false),
            cpu: AtomicU32::new(0),
            syscall_tick: AtomicU32::new(0),
            preempt: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            deferred_wake: DeferredWake::new(),
            tick: AtomicU32::new(0),
            next_streak: Cell::new(0),
            fork_looks: Cell::new(0),
            blocks: FreeList::new(),
            slots: UnsafeCell::new(cache::Local::new()),
            ids: Cell::new((0, 0)),
            link: Cell::new(None),
            timers: Timers::new(),
            forks: ForkTable::new(),
            stats: Stats::default(),
            sampler: Sampler::new(),
            wait_times: WaitTimes::new(),
        }
    }
}

impl P {
    /// Takes the P from an M that is in a blocking call. Acquire and Release: ownership passes.
    pub(crate) fn take_from_syscall(&self) -> bool {
        self.in_syscall.load(Ordering::Relaxed)
            && self.in_syscall.compare_exchange(true, false, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// As [`take_from_syscall`](P::take_from_syscall), for a thread that is not that M.
    pub(crate) fn retake(&self) -> bool {
        let taken = self.take_from_syscall();
        if taken
            && event::is_on()
            && let Some(m) = self.m()
        {
            event::stolen(m.id, self.id);
        }
        taken
    }

    /// Runs `f` on the slots that this P keeps.
    ///
    /// # Safety
    /// The caller owns the P (P1), and `f` does not call this again.
    #[inline]
    pub(crate) unsafe fn with_slots<R>(&self, f: impl FnOnce(&mut cache::Local) -> R) -> R {
        // SAFETY: the caller's promise.
        f(unsafe { &mut *self.slots.get() })
    }

    /// For the tracer: whether `m` is in a marked call and has left this P behind.
    pub(crate) fn in_syscall_of(&self, m: &M) -> bool {
        self.in_syscall.load(Ordering::Relaxed) && self.m().is_some_and(|last| std::ptr::eq(last, m))
    }

    /// The M that has it or had it last.
    pub(crate) fn m(&self) -> Option<&'static M> {
        // SAFETY: Ms are never freed.
        unsafe { self.m.load(Ordering::Relaxed).as_ref() }
    }
}
