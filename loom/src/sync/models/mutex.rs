//! Models of the mutex: exclusion, visibility, no lost wake-up (loom reports a lost one as a deadlock), and a
//! clean word when all threads are done.

use std::time::Instant;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::base::atomic::Ordering;
use crate::sync::new_mutex;
use crate::sync::raw::mutex::{CONTENDED, RawMutex};
use crate::sync::raw::{spin, starvation};

struct Counter {
    raw: RawMutex,
    value: UnsafeCell<usize>,
}

// SAFETY: `value` is used only while `raw` is held, which is what the models check.
unsafe impl Sync for Counter {}
// SAFETY: plain data.
unsafe impl Send for Counter {}

impl Counter {
    fn new() -> Arc<Counter> {
        Arc::new(Counter { raw: new_mutex(), value: UnsafeCell::new(0) })
    }

    /// The mutex is held.
    fn add_one(&self) {
        // SAFETY: the mutex is held; loom checks that no other thread is here.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn lock_add_unlock(&self) {
        self.raw.acquire();
        self.add_one();
        self.raw.release();
    }

    fn assert_clean(&self, value: usize) {
        assert!(!self.raw.is_held());
        let flags = self.raw.flags.load(Ordering::Relaxed);
        assert_eq!(flags & !CONTENDED, 0, "no bit is left behind");
        assert!(self.raw.queue.lock().is_empty());
        // SAFETY: all other threads have been joined.
        self.value.with(|now| assert_eq!(unsafe { *now }, value));
    }
}

fn contend(threads: usize, times: usize) {
    let counter = Counter::new();
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let counter = counter.clone();
            thread::spawn(move || (0..times).for_each(|_| counter.lock_add_unlock()))
        })
        .collect();
    (0..times).for_each(|_| counter.lock_add_unlock());
    others.into_iter().for_each(|t| t.join().unwrap());
    counter.assert_clean(threads * times);
}

pub fn two_threads_exclude_each_other() {
    check(4, || contend(2, 2));
}

pub fn two_impatient_threads_hand_over() {
    check(4, || {
        starvation::set_starving(true);
        contend(2, 2);
    });
}

pub fn three_threads_exclude_each_other() {
    check(3, || contend(3, 1));
}

pub fn three_impatient_threads_hand_over() {
    check(2, || {
        starvation::set_starving(true);
        contend(3, 2);
    });
}

pub fn a_spinner_takes_the_wake_up_of_a_waiter_and_loses_nothing() {
    check(2, || {
        spin::set_rounds(1);
        contend(3, 1);
    });
}

pub fn a_waiter_that_gives_up_takes_nobody_s_wake_up_with_it() {
    for exhausted in [false, true] {
        check(3, move || {
            starvation::set_starving(exhausted);
            let counter = Counter::new();
            let timed = thread::spawn({
                let counter = counter.clone();
                move || {
                    let taken = counter.raw.acquire_until(Some(Instant::now()));
                    if taken {
                        counter.add_one();
                        counter.raw.release();
                    }
                    usize::from(taken)
                }
            });
            let patient = thread::spawn({
                let counter = counter.clone();
                move || counter.lock_add_unlock()
            });
            counter.lock_add_unlock();
            patient.join().unwrap();
            let taken = timed.join().unwrap();
            counter.assert_clean(2 + taken);
        });
    }
}

pub fn a_fair_unlock_hands_over() {
    check(3, || {
        let counter = Counter::new();
        let other = thread::spawn({
            let counter = counter.clone();
            move || counter.lock_add_unlock()
        });
        counter.raw.acquire();
        counter.add_one();
        counter.raw.release_fair();
        if counter.raw.try_acquire() {
            counter.add_one();
            counter.raw.release_fair();
        } else {
            counter.lock_add_unlock();
        }
        other.join().unwrap();
        counter.assert_clean(3);
    });
}
