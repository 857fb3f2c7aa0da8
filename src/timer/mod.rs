//! Timers: a 4-ary heap for each P, of timers that live where their users keep them, and of goroutines that sleep,
//! which need none. So a sleep allocates nothing.
//!
//! - T1. A timer is in at most one heap. `home` says in which, and changes only under that heap's lock. Who wants to
//!   touch a timer locks its home and checks that it still is its home.
//! - T2. `Timers::next` is the earliest time in that heap, or `NEVER`; written under the heap's lock.
//! - T3. A timer fires under its heap's lock, after it left the heap: who has the lock and finds the timer in no
//!   heap knows that it has fired, completely, and will not be touched again. One that its heap keeps alive
//!   (`Timer::kept_by_heap`) is in no heap from just before its callback is called, and not touched after.
//!
//! Who runs due timers: the P itself between goroutines (`find.rs`), a thief that found nothing else, the M that
//! waits in the poller until the earliest one, and sysmon when no P comes to look and nobody polls.
//!
//! A foreign thread has no P and puts its timer into the heap of P 0, which is never retired. Somebody comes to look:
//! an M that polls, or one that gives up its P later, or the one that `poller::ensure` wakes (see there).

pub(crate) mod deferred;
mod heap;
mod node;

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sched::glist::GList;
use crate::sched::lock::{Guard, Lock};
use crate::sched::p::{self, P};
use crate::sched::poller;
use crate::sched::section::{self, Section};
use crate::sched::waiter::Waiter;
use crate::sched::{boot, bubble, wake};
use crate::sys::clock::nanotime;

pub(crate) use deferred::{Deferred, service_goroutines};
use heap::{Heap, Item};
pub(crate) use node::{Fire, NEVER, Timer};

/// So many due items are taken before the first of them is touched: with many sleepers each is a page that the
/// processor has not seen for long, and looking for one need not wait until another was found.
const BATCH: usize = 8;

/// A heap with its lock.
pub(crate) struct Timers {
    heap: Lock<Heap>,
    /// T2.
    next: AtomicU64,
}

impl Timers {
    pub(crate) const fn new() -> Timers {
        Timers { heap: Lock::new(Heap::new()), next: AtomicU64::new(NEVER) }
    }

    /// The earliest time, or `NEVER`.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// Whether somebody, likely the P's owner, is at them just now.
    pub(crate) fn is_in_use(&self) -> bool {
        self.heap.is_locked()
    }

    /// Whether many are due before `then`.
    pub(crate) fn many_are_due(&self, then: u64) -> bool {
        self.next() < then && self.heap.lock_inside().has_many_before(then)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.heap.lock_inside().len()
    }

    /// Adds a timer that is in no heap. True: it is the first here.
    ///
    /// # Safety
    /// The timer stays in place until it has fired or [`stop`] returned.
    pub(crate) unsafe fn insert(&'static self, timer: &Timer, when: u64) -> bool {
        let heap = self.heap.lock_inside();
        timer.set_home(Some(self));
        self.push(heap, Item::Timer(timer), when)
    }

    fn push(&self, mut heap: Guard<'_, Heap>, item: Item, when: u64) -> bool {
        heap.push(when, item);
        self.publish(&heap);
        heap.first() == when
    }

    fn publish(&self, heap: &Heap) {
        self.next.store(heap.first(), Ordering::SeqCst);
    }

    /// Fires what is due. Goroutines that are to run are appended to `ready`.
    pub(crate) fn run_due(&self, now: u64, ready: &GList) {
        if self.next() > now {
            return;
        }
        let mut heap = self.heap.lock_inside();
        let mut due = [MaybeUninit::uninit(); BATCH];
        loop {
            let mut count = 0;
            while count < BATCH && heap.first() <= now && heap.first() != NEVER {
                due[count].write(heap.pop());
                count += 1;
            }
            for item in &due[..count] {
                // SAFETY: so many were written.
                unsafe { item.assume_init_ref() }.prefetch();
            }
            for item in &due[..count] {
                // SAFETY: so many were written.
                let fired = match unsafe { item.assume_init() } {
                    // SAFETY: a timer in a heap is alive (the promise of `insert`), and we hold the lock of its home. T3:
                    // it is out of the heap, and nobody frees it before it has fired.
                    Item::Timer(timer) => unsafe { Timer::fire(timer, now) },
                    Item::Sleeper(g) => Waiter::of(g).ready_from_timer(),
                };
                match fired {
                    Fire::Ready(g) => ready.push_back(g),
                    Fire::Nothing => {}
                }
            }
            if count < BATCH {
                break;
            }
        }
        self.publish(&heap);
    }
}

/// Starts `timer`, which is in no heap, to fire at `when` on the caller's P.
///
/// # Safety
/// The timer stays in place until it has fired or [`stop`] returned.
#[inline]
pub(crate) unsafe fn start(section: &Section, timer: &Timer, when: u64) {
    if let Some(timers) = bubble::timers_of(section.g()) {
        // SAFETY: passed on.
        unsafe { timers.insert(timer, when) };
        return;
    }
    // SAFETY: passed on.
    if unsafe { section.p().timers.insert(timer, when) } {
        poller::new_deadline(when);
    }
}

/// Readies the calling goroutine, which parks next, at `when`.
pub(crate) fn start_sleep(section: &Section, when: u64) {
    let item = Item::Sleeper(section.g());
    if let Some(timers) = bubble::timers_of(section.g()) {
        timers.push(timers.heap.lock_inside(), item, when);
    } else if section.p().timers.push(section.p().timers.heap.lock_inside(), item, when) {
        poller::new_deadline(when);
    }
}

/// As [`start`], from anywhere: a goroutine or a foreign thread.
///
/// # Safety
/// As [`start`].
pub(crate) unsafe fn start_anywhere(timer: &Timer, when: u64) {
    if let Some(section) = section::enter() {
        // SAFETY: passed on.
        return unsafe { start(&section, timer, when) };
    }
    boot::ensure();
    let Some(first_p) = p::get(0) else { unreachable!("a running runtime has a P") };
    // SAFETY: passed on.
    if unsafe { first_p.timers.insert(timer, when) } {
        poller::new_deadline(when);
        poller::ensure();
    }
}

/// Stops `timer`. True: it was waiting and will not fire. False: it has fired, completely (or, if its heap kept it, is about to),
/// or was never started.
/// Inside a section, on g0, or on a foreign thread.
pub(crate) fn stop(timer: &Timer) -> bool {
    while let Some(home) = timer.home() {
        let mut heap = home.heap.lock_inside();
        if !timer.home().is_some_and(|now| std::ptr::eq(now, home)) {
            continue;
        }
        heap.remove(timer);
        timer.set_home(None);
        home.publish(&heap);
        return true;
    }
    false
}

/// Moves all timers of a retired P to another one.
pub(crate) fn move_all(from: &'static P, to: &'static P) {
    // Two heaps are locked in the order of their Ps' ids.
    let (mut source, mut target) = if from.id < to.id {
        let source = from.timers.heap.lock_inside();
        (source, to.timers.heap.lock_inside())
    } else {
        let target = to.timers.heap.lock_inside();
        (from.timers.heap.lock_inside(), target)
    };
    while source.len() != 0 {
        let when = source.first();
        let item = source.pop();
        if let Item::Timer(timer) = item {
            // SAFETY: a timer in a heap is alive, and we hold the locks of its old and its new home.
            unsafe { (*timer).set_home(Some(&to.timers)) };
        }
        target.push(when, item);
    }
    from.timers.publish(&source);
    to.timers.publish(&target);
    let first = target.first();
    drop((source, target));
    if first != NEVER {
        poller::new_deadline(first);
    }
}

/// The earliest time in any P's heap.
pub(crate) fn earliest() -> u64 {
    p::all().map(|p| p.timers.next()).min().unwrap_or(NEVER)
}

/// Runs what is due on `p` and makes the goroutines runnable there. By the P's owner, on g0.
pub(crate) fn check(p: &'static P) {
    if p.timers.next.load(Ordering::Relaxed) == NEVER {
        return;
    }
    let ready = GList::new();
    p.timers.run_due(nanotime(), &ready);
    wake::make_all_runnable_on(p, &ready);
}

/// As [`check`], of another P's timers.
pub(crate) fn check_other(own: &'static P, other: &'static P, now: u64) {
    let ready = GList::new();
    other.timers.run_due(now, &ready);
    wake::make_all_runnable_on(own, &ready);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_due_where_enough_wait_and_most_of_the_next_come_soon() {
        let timers: &'static Timers = Box::leak(Box::new(Timers::new()));
        let nodes: &'static [Timer] = Vec::leak((0..300).map(|_| Timer::for_test()).collect());
        let start = |nodes: &'static [Timer], when| {
            for node in nodes {
                // SAFETY: it is leaked.
                unsafe { timers.insert(node, when) };
            }
        };
        start(&nodes[..20], 1_000);
        assert!(timers.many_are_due(2_000, 0));
        assert!(!timers.many_are_due(1_000, 0), "none is due by then");
        assert!(!timers.many_are_due(2_000, 256), "there are only 20");
        start(&nodes[20..], 1_000_000);
        assert!(timers.many_are_due(2_000, 256));
    }
}
