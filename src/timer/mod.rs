//! Timers: a 4-ary heap for each P, of timers that live where their users keep them (a sleeper's is on its
//! stack), so that a sleep allocates nothing.
//!
//! - T1. A timer is in at most one heap. `home` says whose, and changes only under that heap's lock. Who wants to
//!   touch a timer locks its home and checks that it still is its home.
//! - T2. `P::next_timer` is the earliest time in that P's heap, or `NEVER`; written under the heap's lock.
//! - T3. A timer fires under its heap's lock, after it left the heap: who has the lock and finds the timer in no
//!   heap knows that it has fired, completely, and will not be touched again.
//!
//! Who runs due timers: the P itself between goroutines (`find.rs`), a thief that found nothing else, the M that
//! waits in the poller until the earliest one, and sysmon when all Ps are busy.

mod heap;
mod node;

use std::sync::atomic::Ordering;

use crate::sched::glist::GList;
use crate::sched::p::P;
use crate::sched::poller;
use crate::sched::section::Section;
use crate::sys::clock::nanotime;

pub(crate) use heap::Heap;
pub(crate) use node::{Fire, NEVER, Timer};

/// Starts `timer`, which is in no heap, to fire at `when` on the caller's P.
///
/// # Safety
/// The timer stays in place until it has fired or [`stop`] returned.
pub(crate) unsafe fn start(section: &Section, timer: &Timer, when: u64) {
    let p = section.p();
    // SAFETY: passed on.
    let first = unsafe { insert(p, timer, when) };
    if first {
        poller::new_deadline(when);
    }
}

/// Puts `timer` into the heap of `p`. True: it is the first there.
///
/// # Safety
/// As [`start`].
pub(crate) unsafe fn insert(p: &'static P, timer: &Timer, when: u64) -> bool {
    let mut heap = p.timers.lock_inside();
    timer.set_home(Some(p));
    heap.push(when, timer);
    publish(p, &heap);
    heap.first() == when
}

fn publish(p: &P, heap: &Heap) {
    p.next_timer.store(heap.first(), Ordering::SeqCst);
}

/// Stops `timer`. True: it was waiting and will not fire. False: it has fired, completely, or was never started.
/// Inside a section or on g0.
pub(crate) fn stop(timer: &Timer) -> bool {
    while let Some(p) = timer.home() {
        let mut heap = p.timers.lock_inside();
        if !timer.home().is_some_and(|home| std::ptr::eq(home, p)) {
            continue;
        }
        heap.remove(timer);
        timer.set_home(None);
        publish(p, &heap);
        return true;
    }
    false
}

/// Fires what is due in the heap of `p`. Goroutines that are to run are appended to `ready`.
pub(crate) fn run_due(p: &'static P, now: u64, ready: &GList) {
    if p.next_timer.load(Ordering::SeqCst) > now {
        return;
    }
    let mut heap = p.timers.lock_inside();
    while heap.first() <= now {
        let timer = heap.pop();
        // SAFETY: a timer in a heap is alive (the promise of `start`), and we hold the lock of its home.
        let timer = unsafe { &*timer };
        // SAFETY: T3: it is out of the heap, and nobody frees it before we release the lock.
        match unsafe { timer.fire(now) } {
            Fire::Ready(g) => ready.push_back(g),
            Fire::Nothing => {}
        }
    }
    publish(p, &heap);
}

/// Moves all timers of a retired P to another one.
pub(crate) fn move_all(from: &'static P, to: &'static P) {
    // Two heaps are locked in the order of their Ps' ids.
    let (mut source, mut target) = if from.id < to.id {
        let source = from.timers.lock_inside();
        (source, to.timers.lock_inside())
    } else {
        let target = to.timers.lock_inside();
        (from.timers.lock_inside(), target)
    };
    while source.first() != NEVER {
        let when = source.first();
        let timer = source.pop();
        // SAFETY: a timer in a heap is alive, and we hold the locks of its old and its new home.
        unsafe { (*timer).set_home(Some(to)) };
        target.push(when, timer);
    }
    publish(from, &source);
    publish(to, &target);
    let first = target.first();
    drop((source, target));
    if first != NEVER {
        poller::new_deadline(first);
    }
}

/// The earliest time in any heap.
pub(crate) fn earliest() -> u64 {
    crate::sched::p::all().map(|p| p.next_timer.load(Ordering::SeqCst)).min().unwrap_or(NEVER)
}

/// Nanoseconds of the monotonic clock at `deadline`; what is too far away is `NEVER`.
pub(crate) fn nanos_at(deadline: std::time::Instant) -> u64 {
    let now = std::time::Instant::now();
    let left = deadline.saturating_duration_since(now).as_nanos();
    u64::try_from(left).ok().and_then(|left| nanotime().checked_add(left)).unwrap_or(NEVER)
}

/// Runs what is due on `p` and makes the goroutines runnable there. By the P's owner, on g0.
pub(crate) fn check(p: &'static P) {
    if p.next_timer.load(Ordering::Relaxed) == NEVER {
        return;
    }
    let ready = GList::new();
    run_due(p, nanotime(), &ready);
    crate::sched::wake::make_all_runnable_on(p, &ready);
}

/// As [`check`], of another P's timers.
pub(crate) fn check_other(own: &'static P, other: &'static P, now: u64) {
    let ready = GList::new();
    run_due(other, now, &ready);
    crate::sched::wake::make_all_runnable_on(own, &ready);
}
