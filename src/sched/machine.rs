//! `Machine`: the state of the real process around the scheduler: its threads, and the flags by which they
//! signal each other. The functions that use each part are in the files named there.
//! `run/machine_platform.rs` makes it the [`Platform`](super::platform::Platform) of [`SCHED`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::{io, ptr};

use super::event::{self, Waker};
use super::hooks::Hooks;
use super::idle::fork_helpers::ForkHelpers;
use super::idle::wake_sysmon;
use super::schedt::{Sched, new_sched};
use super::types::g::G;
use super::types::m::M;
use super::types::wait_times::WaitTimes;
use super::types::waiter::Waiter;
use crate::base::atomic::CachePadded;
use crate::base::free_list::FreeList;
use crate::base::lock::{Lock, Rank, Ranked};
use crate::base::note::Note;
use crate::sys::signal::Previous;
use crate::sys::topology::Topology;
use crate::sys::{mem, thread};

/// The scheduler of the process.
pub(crate) static SCHED: Sched<Machine> = new_sched!(Machine::new());

/// Fields that some threads write often are padded, so that no other field shares their cache line.
pub(crate) struct Machine {
    pub(crate) boot: CachePadded<Boot>,
    pub(crate) poll: CachePadded<Poll>,
    pub(crate) sysmon: CachePadded<Sysmon>,
    pub(crate) starter: CachePadded<Starter>,
    pub(crate) housekeeper: CachePadded<Housekeeper>,
    pub(crate) watchdog: CachePadded<Watchdog>,
    pub(crate) observers: Observers,
    /// The kernel's id of the thread of the flight recorder (`trace/flight/`), or 0.
    pub(crate) flight_thread: AtomicU32,
    pub(crate) tracer: CachePadded<MixedThread>,
    pub(crate) preempt: CachePadded<Preempt>,
    pub(crate) gomaxprocs: CachePadded<GoMaxProcs>,
    /// The newest M; all are linked through `M::older`.
    ms: AtomicPtr<M>,
    m_count: AtomicU32,
    /// How many Ms have a thread.
    live_count: AtomicUsize,
    /// Ms whose threads ended, linked through `M::link`: a stack from which only the housekeeper takes.
    ended: AtomicPtr<M>,
    /// Distances between CPUs, where they differ.
    pub(crate) topology: OnceLock<Option<Topology>>,
    /// Ids for the next goroutines.
    pub(crate) next_id: CachePadded<AtomicU64>,
    /// How many goroutines foreign threads have spawned.
    pub(crate) created_outside: CachePadded<AtomicU64>,
    /// A coarse clock (ns), at most about a second behind while goroutines run: the time of the housekeeper's
    /// last pass (`monitor/shrink.rs`). A goroutine stores it when it parks.
    pub(crate) coarse_clock: CachePadded<AtomicU64>,
    /// The waits that threads without a P ended, while they are measured (`types/wait_times.rs`).
    pub(crate) wait_times: CachePadded<WaitTimes>,
    /// Small blocks that no P keeps (`run/small_blocks.rs`).
    pub(crate) small_blocks: CachePadded<Lock<FreeList>>,
    /// Goroutines that run forks.
    pub(crate) forks: ForkHelpers,
}

/// The state of the runtime's start (`boot.rs`).
pub(crate) struct Boot {
    pub(crate) started: AtomicBool,
    /// The runtime ran in the process from which this one was forked, and its threads are not here.
    pub(crate) forked: AtomicBool,
    /// Whether goroutines can have thread-local storage of their own; the error says what is missing.
    pub(crate) private_tls: OnceLock<Result<(), String>>,
    pub(crate) hooks: OnceLock<&'static Hooks>,
}

/// The M that waits for timers and I/O (`idle/poll_wait.rs`).
pub(crate) struct Poll {
    /// An M blocks in the poller, or is about to.
    pub(crate) busy: AtomicBool,
    /// When that M will wake up by itself (ns); 0 when none waits.
    pub(crate) until: AtomicU64,
    /// The slack of the current wait (ns).
    pub(crate) slack: AtomicU64,
    /// The slack that the program has chosen (ns), or 0.
    pub(crate) chosen_slack: AtomicU64,
    /// How long (ns) a goroutine that time or I/O woke ran recently, with what followed from it.
    pub(crate) pace: AtomicU64,
}

/// How other threads wake sysmon (`idle/wake_sysmon.rs`).
pub(crate) struct Sysmon {
    /// What it does, as far as other threads need to know: see there.
    pub(crate) state: AtomicU32,
    /// The timerfd on which it sleeps while every P is idle; -1: there is none, and it sleeps on the Note.
    pub(crate) timer: AtomicI32,
    /// It may wait for a timer that the program has closed; the housekeeper interrupts it.
    pub(crate) deaf: AtomicBool,
    /// When it last looked (ns).
    pub(crate) looked_at: AtomicU64,
    /// Until when (ns) it has to be woken for each P that becomes busy.
    pub(crate) distrust_until: AtomicU64,
    /// Many goroutines block in unmarked calls just now (`monitor/sysmon/burst.rs`).
    pub(crate) in_burst: AtomicBool,
    pub(crate) wake: Note,
    /// The kernel's id of its thread.
    pub(crate) tid: AtomicU32,
}

/// Requests for Ms (`monitor/starter.rs`).
pub(crate) struct Starter {
    pub(crate) wake: Note,
    pub(crate) start_spinning_m: AtomicBool,
    /// How many idle Ms are wanted; 0 when the starter has seen the request.
    pub(crate) spare_ms_wanted: AtomicU32,
    /// How many threads start that will be idle Ms.
    pub(crate) spare_ms_starting: AtomicU32,
    /// The most threads that run goroutines.
    pub(crate) max_threads: AtomicUsize,
    pub(crate) limit_reported: AtomicBool,
    /// The kernel's id of its thread.
    pub(crate) tid: AtomicU32,
}

/// Requests to the housekeeper (`monitor/housekeeper.rs`).
pub(crate) struct Housekeeper {
    pub(crate) wake: Note,
    pub(crate) pass_wanted: AtomicBool,
    /// A goroutine blocks in an unmarked call that no report has looked at.
    pub(crate) calls_wanted: AtomicBool,
    /// The kernel's id of its thread.
    pub(crate) tid: AtomicU32,
}

/// The stall watchdog (`diag/stall.rs`), if the program wants one.
pub(crate) struct Watchdog {
    /// Set by sysmon when it wakes up: goroutines run again.
    pub(crate) wake: Note,
    /// It calls the program's function for stalls.
    pub(crate) thread: MixedThread,
}

/// A thread of the runtime that may also run code of the program, at times that it marks: the watchdog; and
/// the tracer, if its writer is a file. At other times it is a service thread, as sysmon is, and the
/// deadlock check leaves it aside. The check cannot know that the code of the program would end a wait when
/// it is called again; what is called so must not be the only thing that can.
pub(crate) struct MixedThread {
    /// The kernel's id of the thread; 0 while there is none, or while it runs code of the program.
    tid: AtomicU32,
}

impl MixedThread {
    const fn new() -> MixedThread {
        MixedThread { tid: AtomicU32::new(0) }
    }

    /// The calling thread is this one from here on, until the result is dropped: the first step of the
    /// thread. There is no other one.
    #[must_use]
    pub(crate) fn begin(&'static self) -> OnMixedThread {
        self.tid.store(thread::tid(), Ordering::Relaxed);
        OnMixedThread(self)
    }

    /// Runs code of the program, on this thread, which is no service thread meanwhile: the code may end the
    /// wait of a goroutine, and a signal must not cut its system calls short.
    pub(crate) fn run_of_program<T>(&self, f: impl FnOnce() -> T) -> T {
        /// Also if `f` panics: the thread then ends, or goes on.
        struct Back<'a>(&'a MixedThread, u32);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.tid.store(self.1, Ordering::Relaxed);
            }
        }
        let _back = Back(self, self.tid.swap(0, Ordering::Relaxed));
        f()
    }
}

/// The calling thread is a [`MixedThread`] until this is dropped.
pub(crate) struct OnMixedThread(&'static MixedThread);

impl Drop for OnMixedThread {
    fn drop(&mut self) {
        self.0.tid.store(0, Ordering::Relaxed);
    }
}

/// Threads that only look at the program from outside (`debug/`): the kernel's ids, 0 for a free place. They
/// never end a goroutine's wait, so a deadlock is one with them, too.
pub(crate) struct Observers([AtomicU32; OBSERVERS]);

/// The most threads that can be known as observers.
pub(crate) const OBSERVERS: usize = 80;

#[cfg(feature = "debug")]
impl Observers {
    /// Runs `f` on the calling thread, which is known as an observer meanwhile.
    pub(crate) fn observe<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Leave<'a>(&'a Observers, u32);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.leave(self.1);
            }
        }
        let tid = thread::tid();
        let _leave = self.join(tid).then_some(Leave(self, tid));
        f()
    }

    /// Makes the thread known, until [`leave`](Observers::leave). False: there is no free place.
    fn join(&self, tid: u32) -> bool {
        let free =
            |place: &AtomicU32| place.compare_exchange(0, tid, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        self.0.iter().any(free)
    }

    fn leave(&self, tid: u32) {
        if let Some(place) = self.0.iter().find(|place| place.load(Ordering::Relaxed) == tid) {
            place.store(0, Ordering::Relaxed);
        }
    }
}

/// Preemption by signal (`monitor/preempt.rs`).
pub(crate) struct Preempt {
    pub(crate) enabled: AtomicBool,
    /// The handler that our signal had before.
    pub(crate) previous: Previous,
    /// The thread that last passed a signal on to the previous handler.
    pub(crate) passing: AtomicU32,
}

/// Changes of GOMAXPROCS (`gomaxprocs.rs`).
pub(crate) struct GoMaxProcs {
    /// One change at a time.
    pub(crate) changing: AtomicBool,
    pub(crate) leaving: Lock<Leaving>,
    /// A copy of `Leaving::count` that is read without the lock: sysmon does not sleep until it is 0, and
    /// preempts goroutines that do not give up a retired P.
    pub(crate) still_leaving: AtomicUsize,
    /// The program or its environment has chosen the number, so it does not follow the CPU quota.
    pub(crate) chosen: AtomicBool,
}

/// Retired Ps that still have an owner.
pub(crate) struct Leaving {
    pub(crate) count: usize,
    /// The Waiter that is readied when the last of them has no owner.
    pub(crate) waiter: Option<Waiter>,
}

impl Ranked for Leaving {
    const RANK: Rank = Rank::Alone;
}

impl Machine {
    pub(crate) const fn new() -> Machine {
        Machine {
            boot: CachePadded::new(Boot {
                started: AtomicBool::new(false),
                forked: AtomicBool::new(false),
                private_tls: OnceLock::new(),
                hooks: OnceLock::new(),
            }),
            poll: CachePadded::new(Poll {
                busy: AtomicBool::new(false),
                until: AtomicU64::new(0),
                slack: AtomicU64::new(0),
                chosen_slack: AtomicU64::new(0),
                pace: AtomicU64::new(0),
            }),
            sysmon: CachePadded::new(Sysmon {
                state: AtomicU32::new(wake_sysmon::LOOKING),
                timer: AtomicI32::new(-1),
                deaf: AtomicBool::new(false),
                looked_at: AtomicU64::new(0),
                distrust_until: AtomicU64::new(0),
                in_burst: AtomicBool::new(false),
                wake: Note::new(),
                tid: AtomicU32::new(0),
            }),
            starter: CachePadded::new(Starter {
                wake: Note::new(),
                start_spinning_m: AtomicBool::new(false),
                spare_ms_wanted: AtomicU32::new(0),
                spare_ms_starting: AtomicU32::new(0),
                max_threads: AtomicUsize::new(10_000),
                limit_reported: AtomicBool::new(false),
                tid: AtomicU32::new(0),
            }),
            housekeeper: CachePadded::new(Housekeeper {
                wake: Note::new(),
                pass_wanted: AtomicBool::new(false),
                calls_wanted: AtomicBool::new(false),
                tid: AtomicU32::new(0),
            }),
            observers: Observers([const { AtomicU32::new(0) }; OBSERVERS]),
            flight_thread: AtomicU32::new(0),
            watchdog: CachePadded::new(Watchdog { wake: Note::new(), thread: MixedThread::new() }),
            tracer: CachePadded::new(MixedThread::new()),
            preempt: CachePadded::new(Preempt {
                enabled: AtomicBool::new(false),
                previous: Previous::new(),
                passing: AtomicU32::new(0),
            }),
            gomaxprocs: CachePadded::new(GoMaxProcs {
                changing: AtomicBool::new(false),
                leaving: Lock::new(Leaving { count: 0, waiter: None }),
                still_leaving: AtomicUsize::new(0),
                chosen: AtomicBool::new(false),
            }),
            ms: AtomicPtr::new(ptr::null_mut()),
            m_count: AtomicU32::new(0),
            live_count: AtomicUsize::new(0),
            ended: AtomicPtr::new(ptr::null_mut()),
            topology: OnceLock::new(),
            next_id: CachePadded::new(AtomicU64::new(1)),
            created_outside: CachePadded::new(AtomicU64::new(0)),
            coarse_clock: CachePadded::new(AtomicU64::new(0)),
            wait_times: CachePadded::new(WaitTimes::new()),
            small_blocks: CachePadded::new(Lock::new(FreeList::new())),
            forks: ForkHelpers::new(),
        }
    }

    /// Takes an M whose thread ended, or makes a new one. Called by the starter only, which must not use the
    /// program's allocator.
    pub(crate) fn make_m(&self) -> io::Result<&'static M> {
        let m = match self.take_ended_m() {
            Some(m) => m,
            None => self.make_new_m()?,
        };
        self.live_count.fetch_add(1, Ordering::Relaxed);
        // Acquire of its readers pairs with this: they see a complete M.
        m.alive.store(true, Ordering::Release);
        Ok(m)
    }

    fn make_new_m(&self) -> io::Result<&'static M> {
        let place = mem::reserve(size_of::<M>())? as *mut M;
        // SAFETY: the mapping is new, large enough, begins at a page, and is never unmapped.
        let m: &'static M = unsafe {
            place.write(M::new(self.m_count.fetch_add(1, Ordering::Relaxed)));
            &*place
        };
        // SAFETY: Ms are leaked.
        m.older.set(unsafe { self.ms.load(Ordering::Relaxed).as_ref() });
        // Release: readers of the list see a complete M.
        self.ms.store(ptr::from_ref(m).cast_mut(), Ordering::Release);
        Ok(m)
    }

    /// The M has no thread any more: the last step of its thread, or of the starter if the thread could
    /// not be started. The next thread that starts may take it.
    pub(crate) fn m_ended(&self, m: &'static M) {
        m.alive.store(false, Ordering::Relaxed);
        self.live_count.fetch_sub(1, Ordering::Relaxed);
        let mut top = self.ended.load(Ordering::Relaxed);
        loop {
            // SAFETY: Ms are leaked.
            m.link.set(unsafe { top.as_ref() });
            // Release: the thread that takes this M sees it as we left it.
            match self.ended.compare_exchange_weak(
                top,
                ptr::from_ref(m).cast_mut(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(other) => top = other,
            }
        }
    }

    /// Only the starter takes, so the M below the top stays the one below it until the top is taken.
    fn take_ended_m(&self) -> Option<&'static M> {
        // Acquire pairs with the release in `m_ended`.
        let mut top = self.ended.load(Ordering::Acquire);
        loop {
            // SAFETY: Ms are leaked.
            let m: &'static M = unsafe { top.as_ref() }?;
            let below = m.link.get().map_or(ptr::null_mut(), |m| ptr::from_ref(m).cast_mut());
            match self.ended.compare_exchange_weak(top, below, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    m.link.set(None);
                    return Some(m);
                }
                Err(other) => top = other,
            }
        }
    }

    /// How many Ms have a thread.
    pub(crate) fn live_count(&self) -> usize {
        self.live_count.load(Ordering::Relaxed)
    }

    /// Every M ever made.
    pub(crate) fn all_ms(&self) -> impl Iterator<Item = &'static M> {
        // SAFETY: Ms are leaked; `older` is set before publication and never changes.
        let newest: Option<&'static M> = unsafe { self.ms.load(Ordering::Acquire).as_ref() };
        std::iter::successors(newest, |m| m.older.get())
    }

    /// The Ms whose threads run.
    pub(crate) fn live_ms(&self) -> impl Iterator<Item = &'static M> {
        self.all_ms().filter(|m| m.alive.load(Ordering::Acquire))
    }

    /// The M of the thread with that id. Safe in a signal handler.
    pub(crate) fn m_of_thread(&self, tid: u32) -> Option<&'static M> {
        self.all_ms().find(|m| m.is_thread(tid))
    }

    /// Whether the thread is one of [`service_threads`](Machine::service_threads).
    pub(crate) fn is_service_thread(&self, tid: u32) -> bool {
        self.service_threads().any(|service| service == tid)
    }

    /// The kernel's ids of the threads of the runtime that run neither goroutines nor, just now, other code
    /// of the program.
    pub(crate) fn service_threads(&self) -> impl Iterator<Item = u32> {
        let Machine { sysmon, starter, housekeeper, watchdog, tracer, flight_thread, .. } = self;
        let mixed = [&watchdog.thread.tid, &tracer.tid];
        let own = [&sysmon.tid, &starter.tid, &housekeeper.tid, flight_thread];
        let all = own.into_iter().chain(mixed).chain(&self.observers.0);
        all.map(|tid| tid.load(Ordering::Relaxed)).filter(|&tid| tid != 0)
    }

    /// For observers (`event::is_on`): the runtime has ended the wait of `g`, which belongs to the caller.
    /// The caller may be on any thread.
    #[cold]
    pub(crate) fn unblocked_anywhere(&self, g: &G) {
        let now = event::unblocked_anywhere(g.id());
        self.wait_times.add_wait_of(g, Waker::Runtime);
        g.became_runnable(now);
    }

    /// As [`unblocked_anywhere`](Machine::unblocked_anywhere): a thread of the program, the caller, ended the
    /// wait.
    #[cold]
    pub(crate) fn unblocked_by_thread(&self, g: &G) {
        let now = event::unblocked_anywhere(g.id());
        self.wait_times.add_wait_of(g, Waker::Thread);
        g.became_runnable(now);
    }

    /// Whether some M still has a retired P.
    pub(crate) fn ps_leaving(&self) -> bool {
        self.gomaxprocs.still_leaving.load(Ordering::SeqCst) != 0
    }
}

/// The table that was registered at boot.
pub(crate) fn hooks() -> &'static Hooks {
    match SCHED.platform.boot.hooks.get() {
        Some(hooks) => hooks,
        None => unreachable!("the runtime has started"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixed_thread_is_of_service_except_while_it_runs_code_of_the_program() {
        static THREAD: MixedThread = MixedThread::new();
        let id = || THREAD.tid.load(Ordering::Relaxed);
        assert_eq!(id(), 0);
        let on_it = THREAD.begin();
        assert_eq!(id(), thread::tid());
        assert_eq!(THREAD.run_of_program(id), 0);
        assert_eq!(id(), thread::tid());
        let _panicked =
            std::panic::catch_unwind(|| THREAD.run_of_program(|| std::panic::resume_unwind(Box::new(()))));
        assert_eq!(id(), thread::tid(), "a panic of the program's code ends there");
        drop(on_it);
        assert_eq!(id(), 0);
    }

    #[test]
    fn every_service_thread_is_listed() {
        let machine = Machine::new();
        let ids = [&machine.sysmon.tid, &machine.starter.tid, &machine.housekeeper.tid];
        let mixed = [&machine.watchdog.thread.tid, &machine.tracer.tid];
        for (id, place) in (1..).zip(ids.into_iter().chain(mixed)) {
            place.store(id, Ordering::Relaxed);
        }
        assert_eq!(machine.service_threads().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert!(machine.is_service_thread(5) && !machine.is_service_thread(6));
    }
}
