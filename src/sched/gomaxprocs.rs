//! GOMAXPROCS: the number of Ps, and changing it at run time.
//!
//! Growing adds idle Ps and wakes an M. Shrinking stops only the Ps that have to go: each is marked retired
//! and its goroutine is asked to stop, and at the next scheduling point its owner moves its queue to the
//! global queue and gives it up. The caller waits until all of them are given up, so that afterwards at most
//! the new number of goroutines run at once. No other P stops.

use super::machine::SCHED;
use super::park::park_ready::{park, yield_now};
use super::run::runtime_section;
use super::types::p::P;
use super::types::waiter::Waiter;
use super::word::status::WaitReason;
use crate::base::atomic::{MAX_PROCS, Ordering};
use crate::sys::cpus::QuotaWatch;

/// Sets the number of Ps, between 1 and [`MAX_PROCS`]. Returns the former one.
pub(crate) fn set(wanted: usize) -> usize {
    let changing = &SCHED.platform.gomaxprocs.changing;
    while changing.swap(true, Ordering::Acquire) {
        yield_now();
    }
    let before = SCHED.procs();
    if change(before, wanted, Some(Waiter::current())) {
        park(WaitReason::Semaphore, 0);
    }
    changing.store(false, Ordering::Release);
    before
}

/// As [`set`], for the housekeeper, which must not wait: goroutines may need a new M before they give up
/// their Ps. Does nothing if another thread is changing the number.
fn set_soon(wanted: usize) {
    let changing = &SCHED.platform.gomaxprocs.changing;
    if !changing.swap(true, Ordering::Acquire) && !change(SCHED.procs(), wanted, None) {
        changing.store(false, Ordering::Release);
    }
}

/// True: Ps have to be given up. After the last one was, `waiter` is readied; without a waiter, the change is
/// then over.
fn change(before: usize, wanted: usize, waiter: Option<Waiter>) -> bool {
    let wanted = wanted.clamp(1, MAX_PROCS);
    if wanted < before {
        shrink(before, wanted, waiter);
        return true;
    }
    grow(before, wanted);
    false
}

/// Makes the first Ps.
pub(crate) fn start(count: usize) {
    grow(0, count.clamp(1, MAX_PROCS));
}

fn grow(before: usize, wanted: usize) {
    for id in before..wanted {
        let p = *SCHED.ps[id].get_or_init(|| Box::leak(Box::new(P::new(id as u32))));
        p.retired.store(false, Ordering::Relaxed);
        p.preempt.store(false, Ordering::Relaxed);
        SCHED.procs.store(id as u32 + 1, Ordering::SeqCst);
        let section = runtime_section::enter();
        SCHED.lock().put_idle_p(p);
        drop(section);
    }
    let section = runtime_section::enter();
    if SCHED.idle.work_waits(|| SCHED.work_anywhere()) {
        SCHED.wake_p();
    }
    drop(section);
}

fn shrink(before: usize, wanted: usize, waiter: Option<Waiter>) {
    let gomaxprocs = &SCHED.platform.gomaxprocs;
    // Stored before the number, or sysmon could believe that all Ps are idle.
    gomaxprocs.still_leaving.store(before - wanted, Ordering::SeqCst);
    SCHED.procs.store(wanted as u32, Ordering::SeqCst);
    {
        let mut leaving = gomaxprocs.leaving.lock();
        leaving.count = before - wanted;
        leaving.waiter = waiter;
    }
    for p in (wanted..before).filter_map(|id| SCHED.p(id)) {
        let section = runtime_section::enter();
        let locked = SCHED.lock();
        p.retired.store(true, Ordering::Relaxed);
        p.preempt.store(true, Ordering::Relaxed);
        let was_free = locked.take_this_idle_p(p) || p.retake();
        drop(locked);
        if was_free {
            SCHED.retire_p(p);
        }
        drop(section);
    }
}

/// From now on the number is the program's choice and does not follow the CPU quota.
pub(crate) fn choose() {
    SCHED.platform.gomaxprocs.chosen.store(true, Ordering::Relaxed);
}

/// Follows the CPU quota and the affinity as long as the program has not chosen a number.
pub(crate) struct QuotaFollower(Option<QuotaWatch>);

impl QuotaFollower {
    pub(crate) fn new() -> QuotaFollower {
        QuotaFollower(None)
    }

    /// Reads the limits and changes GOMAXPROCS if they changed.
    pub(crate) fn look(&mut self) {
        if SCHED.platform.gomaxprocs.chosen.load(Ordering::Relaxed) {
            return;
        }
        if self.0.as_mut().is_some_and(QuotaWatch::moved) {
            self.0 = None;
        }
        let watch = self.0.get_or_insert_with(QuotaWatch::new);
        watch.poll();
        let wanted = watch.default_procs();
        if wanted != SCHED.procs() {
            set_soon(wanted);
        }
    }
}
