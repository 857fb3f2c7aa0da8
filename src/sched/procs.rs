//! GOMAXPROCS: how many Ps there are, and changing that at run time.
//!
//! Growing makes new Ps idle and wakes an M. Shrinking stops only the Ps that have to go: each is marked
//! retired, its goroutine asked to let go, and its owner gives it up at the next scheduling point after moving
//! its queue to the global one. Who asked for it waits until all of them are gone, so that afterwards at most the new
//! number of goroutines run at once. No other P stops.

use super::global::{self, PROCS, SLEEP};
use super::lock::Lock;
use super::m::M;
use super::p::{self, MAX_PROCS, P};
use super::reason::WaitReason;
use super::waiter::{Waiter, park};
use super::{find, wake};
use crate::atomic::Ordering;
use crate::sys::cpus::QuotaWatch;
use crate::{stack, timer};
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// One change at a time.
static CHANGING: AtomicBool = AtomicBool::new(false);

/// Retired Ps that still have an owner; then the waiter of `set`, if that asked.
static LEAVING: Lock<Leaving> = Lock::new(Leaving { count: 0, waiter: None });

/// The same number, for sysmon: it looks after goroutines that do not let go of a retired P.
static STILL_LEAVING: AtomicUsize = AtomicUsize::new(0);

/// Whether somebody still has a retired P.
pub(crate) fn some_leave() -> bool {
    STILL_LEAVING.load(Ordering::SeqCst) != 0
}

struct Leaving {
    count: usize,
    waiter: Option<Waiter>,
}

/// The current number.
pub(crate) fn get() -> usize {
    PROCS.load(Ordering::Relaxed) as usize
}

/// Sets the number of Ps, between 1 and [`MAX_PROCS`]. Returns the former one.
pub(crate) fn set(wanted: usize) -> usize {
    while CHANGING.swap(true, Ordering::Acquire) {
        super::park::yield_now();
    }
    let before = get();
    if change(before, wanted, Some(Waiter::current())) {
        park(WaitReason::Semaphore, 0);
    }
    CHANGING.store(false, Ordering::Release);
    before
}

/// As [`set`], by the steward, which must not wait: goroutines may need a new M before they let go of their Ps. If the number is
/// just being changed, nothing is done.
fn set_soon(wanted: usize) {
    if !CHANGING.swap(true, Ordering::Acquire) && !change(get(), wanted, None) {
        CHANGING.store(false, Ordering::Release);
    }
}

/// True: Ps have to go. When the last one has gone, `waiter` is readied, or, if there is none, the change is over.
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
        let p = p::make(id);
        p.retired.store(false, Ordering::Relaxed);
        p.preempt.store(false, Ordering::Relaxed);
        PROCS.store(id as u32 + 1, Ordering::SeqCst);
        let section = super::section::enter();
        global::lock().put_idle_p(p);
        drop(section);
    }
    let section = super::section::enter();
    if SLEEP.work_waits(find::work_anywhere) {
        wake::wake_p();
    }
    drop(section);
}

fn shrink(before: usize, wanted: usize, waiter: Option<Waiter>) {
    // Before PROCS: sysmon must not think that all Ps are idle.
    STILL_LEAVING.store(before - wanted, Ordering::SeqCst);
    PROCS.store(wanted as u32, Ordering::SeqCst);
    {
        let mut leaving = LEAVING.lock();
        leaving.count = before - wanted;
        leaving.waiter = waiter;
    }
    for p in (wanted..before).filter_map(p::get) {
        let section = super::section::enter();
        let state = global::lock();
        p.retired.store(true, Ordering::Relaxed);
        p.preempt.store(true, Ordering::Relaxed);
        let was_idle = state.take_this_idle_p(p) || p.take_from_syscall();
        drop(state);
        if was_idle {
            leave(p);
        }
        drop(section);
    }
}

/// An M found that its P is retired: lets go of it.
pub(crate) fn give_up_retired_p(m: &'static M, p: &'static P) {
    m.set_p(None);
    if m.spinning.replace(false) {
        SLEEP.give_back();
    }
    leave(p); // wakes whoever is needed (S2)
}

/// A retired P has no owner any more: moves what it holds elsewhere. The last one ends the change (`change`).
pub(crate) fn leave(p: &'static P) {
    // Nobody runs on it any more, so sysmon must not ask anybody to stop for its sake.
    p.m.store(std::ptr::null_mut(), Ordering::Relaxed);
    wake::drain(p);
    stack::cache::flush(p);
    if let Some(first) = p::get(0) {
        timer::move_all(p, first);
    }
    let mut leaving = LEAVING.lock_inside();
    leaving.count -= 1;
    STILL_LEAVING.store(leaving.count, Ordering::SeqCst);
    let all_gone = leaving.count == 0;
    let waiter = if all_gone { leaving.waiter.take() } else { None };
    drop(leaving);
    match waiter {
        Some(waiter) => waiter.ready_without_p(),
        None if all_gone => CHANGING.store(false, Ordering::Release),
        None => {}
    }
    wake::wake_p();
}

/// Whether the program or its environment has chosen the number: then it does not follow the CPU quota.
static CHOSEN: AtomicBool = AtomicBool::new(false);

/// The number is the program's choice from now on.
pub(crate) fn choose() {
    CHOSEN.store(true, Ordering::Relaxed);
}

/// Follows the CPU quota and the affinity as long as nobody chose a number.
pub(crate) struct QuotaFollower(Option<QuotaWatch>);

impl QuotaFollower {
    pub(crate) fn new() -> QuotaFollower {
        QuotaFollower(None)
    }

    /// Looks at the limits and adopts them if they changed.
    pub(crate) fn look(&mut self) {
        if CHOSEN.load(Ordering::Relaxed) {
            return;
        }
        if self.0.as_mut().is_some_and(QuotaWatch::moved) {
            self.0 = None;
        }
        let watch = self.0.get_or_insert_with(QuotaWatch::new);
        watch.poll();
        let wanted = watch.default_procs();
        if wanted != get() {
            set_soon(wanted);
        }
    }
}
