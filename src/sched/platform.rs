//! `Platform`: what the scheduler needs from its environment.
//!
//! The scheduler's decisions (what to run next, which M to wake, which P to steal from) are methods of
//! `Sched<X>`. `X` supplies the clock, the threads and the poller: the real ones in a process
//! (`run/machine_platform.rs`), those of a loom model, or virtual ones of a simulator.

use super::schedt::Sched;
use super::types::g::G;
use super::types::m::M;
use super::types::p::P;

pub(crate) trait Platform: Sized + Sync + 'static {
    /// Nanoseconds of a clock that never goes back.
    fn now(&self) -> u64;

    /// The number of the CPU that the calling thread runs on.
    fn cpu(&self) -> usize;

    /// Lets `nanos` pass without giving the CPU up.
    fn busy_wait(&self, nanos: u64);

    /// Wakes the thread of an M that was given a P in `next_p`.
    fn wake_m(&self, m: &'static M);

    /// Asks for a new M that spins. The caller's token passes to it.
    fn start_spinning_m(&self);

    /// Asks for an M that waits until it is needed.
    fn start_spare_m(&self);

    /// Whether many goroutines block in unmarked calls just now, so that a goroutine that does not must not
    /// wait behind one that may.
    fn in_burst(&self) -> bool;

    /// A goroutine has to wait because all Ps are busy; one of them may be blocked.
    fn all_ps_busy(&self);

    /// A P is no longer idle.
    fn p_became_busy(&self);

    /// Prefetches memory of a goroutine that this M likely runs next, and of the one after it.
    fn prefetch(&self, m: &'static M, next: *const G, after: *const G);

    /// Whether a thief on CPU `thief`, in round `round`, looks at a P whose M ran on CPU `victim`.
    fn is_near(&self, thief: usize, victim: usize, round: usize) -> bool;

    /// Whether `is_near` may be false, so that the thief has to find out its CPU.
    fn is_uneven(&self) -> bool;

    /// Blocks the thread until another one hands the M a P. False: there are too many idle Ms, and the thread
    /// must end.
    fn stop_m(sched: &Sched<Self>, m: &'static M) -> bool;

    /// Fires the due timers of `of` and makes their goroutines runnable on `own`.
    fn run_timers(sched: &Sched<Self>, own: &'static P, of: &'static P);

    /// Whether a timer or a descriptor may make work later.
    fn waits_for_time_or_io(sched: &Sched<Self>) -> bool;

    /// Polls for I/O if that is due before stealing. True: there are goroutines in the queue of `p`.
    fn poll_if_due(sched: &Sched<Self>, p: &'static P) -> bool;

    /// Whether forks wait for an M (`idle/fork_helpers.rs`).
    fn forks_wait(&self) -> bool;

    /// For an M with a P: takes a goroutine that runs a pending fork; if not `all`, one of a goroutine that
    /// waits.
    fn take_fork_helper(&self, all: bool) -> Option<&'static G>;

    /// For an M without a P: waits for the next timer or for I/O, unless another M does. Afterwards the M may
    /// have a P.
    fn poll_wait(sched: &Sched<Self>, m: &'static M);

    /// Called when a P became idle without its M calling `poll_wait`: makes sure that an M polls.
    fn ensure_poller(sched: &Sched<Self>);

    /// Called by the owner of a busy P, at rare ticks: gives up memory that the P keeps and does not use.
    fn give_up_unused(&self, p: &'static P);

    /// Called by the owner of a busy P, at rare ticks: measures the CPU time of its thread if no other thread
    /// has done so for long.
    fn measure_cpu_time_if_late(&self, p: &'static P);

    /// A retired P has no owner any more. Its queue is empty.
    fn p_retired(sched: &Sched<Self>, p: &'static P);
}
