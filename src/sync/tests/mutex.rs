//! Tests of the mutex's internals: fairness, hand-over, and the state after a waiter has given up.

use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lock_api::{RawMutex as _, RawMutexTimed as _};

use crate::sync::raw::mutex::{CONTENDED, RawMutex, STARVING};
use crate::test_util::until;

/// Whether the mutex is held, and its flags without CONTENDED.
fn state(raw: &RawMutex) -> (bool, u32) {
    (raw.is_locked(), raw.flags.load(Ordering::Relaxed) & !CONTENDED)
}

const FREE: (bool, u32) = (false, 0);
const HELD: (bool, u32) = (true, 0);

fn queued(raw: &RawMutex) -> usize {
    raw.queue.lock().len()
}

#[test]
fn a_waiter_that_gives_up_leaves_nothing_behind() {
    let raw = RawMutex::INIT;
    raw.lock();
    for _ in 0..3 {
        assert!(!raw.try_lock_for(Duration::from_micros(200)));
        assert_eq!(state(&raw), HELD);
        assert_eq!(queued(&raw), 0);
    }
    raw.release();
    assert_eq!(state(&raw), FREE);
}

#[test]
fn a_waiter_that_gives_up_in_the_middle_keeps_the_others_in_order() {
    let raw = RawMutex::INIT;
    let order = StdMutex::new(Vec::new());
    raw.lock();
    thread::scope(|s| {
        let wait_in_line = |name: usize| {
            let (raw, order) = (&raw, &order);
            s.spawn(move || {
                raw.lock();
                order.lock().unwrap().push(name);
                raw.release_fair();
            });
            until(|| queued(raw) == name);
        };
        wait_in_line(1);
        let gave_up = s.spawn(|| raw.try_lock_for(Duration::from_millis(20)));
        until(|| queued(&raw) == 2 || gave_up.is_finished());
        let third = s.spawn(|| {
            raw.lock();
            order.lock().unwrap().push(3);
            raw.release_fair();
        });
        assert!(!gave_up.join().unwrap());
        until(|| queued(&raw) == 2);
        assert!(!third.is_finished());
        raw.release_fair();
    });
    assert_eq!(*order.lock().unwrap(), [1, 3]);
    assert_eq!(state(&raw), FREE);
}

#[test]
fn a_fair_unlock_serves_in_the_order_of_arrival() {
    let raw = RawMutex::INIT;
    let order = StdMutex::new(Vec::new());
    raw.lock();
    thread::scope(|s| {
        for name in 1..=5 {
            let (raw, order) = (&raw, &order);
            s.spawn(move || {
                raw.lock();
                order.lock().unwrap().push(name);
                raw.release_fair();
            });
            until(|| queued(raw) == name);
        }
        raw.release_fair();
    });
    assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4, 5]);
    assert_eq!(state(&raw), FREE);
}

#[test]
fn a_starving_mutex_is_handed_over_and_cannot_be_overtaken() {
    let raw = RawMutex::INIT;
    let done = AtomicBool::new(false);
    raw.lock();
    thread::scope(|s| {
        s.spawn(|| {
            raw.lock();
            until(|| done.load(Ordering::Relaxed));
            raw.release();
        });
        until(|| queued(&raw) == 1);
        raw.flags.fetch_or(STARVING, Ordering::Relaxed);
        raw.release();
        // This cannot race: the unlock itself has made the waiter the holder.
        assert_eq!(state(&raw), HELD);
        assert!(!raw.try_lock());
        assert!(!raw.try_lock_for(Duration::from_micros(100)));
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(state(&raw), FREE);
}

#[test]
fn a_mutex_that_starves_when_it_is_free_goes_to_the_queue() {
    let raw = RawMutex::INIT;
    raw.lock();
    thread::scope(|s| {
        s.spawn(|| {
            raw.lock();
            raw.release();
        });
        until(|| queued(&raw) == 1);
        // The state if the waiter turns the starving mode on after an unlock has looked at the flags and
        // before that unlock frees the lock.
        raw.owner.store(0, Ordering::Relaxed);
        raw.flags.fetch_or(STARVING, Ordering::Relaxed);
        assert!(raw.try_lock());
        raw.release();
    });
    assert_eq!(state(&raw), FREE);
}

#[test]
fn one_that_nobody_waited_for_has_no_flags_and_one_that_somebody_did_remembers() {
    let raw = RawMutex::INIT;
    for _ in 0..3 {
        raw.lock();
        assert!(!raw.try_lock());
        raw.release();
        assert_eq!(raw.flags.load(Ordering::Relaxed), 0);
    }
    raw.lock();
    assert!(!raw.try_lock_for(Duration::from_micros(1)));
    raw.release();
    assert_eq!(raw.flags.load(Ordering::Relaxed), CONTENDED);
    raw.lock();
    raw.release();
    assert_eq!(state(&raw), FREE);
}

#[test]
fn a_hog_that_relocks_at_once_loses_to_a_starving_waiter() {
    let raw = RawMutex::INIT;
    let served = AtomicBool::new(false);
    let start = Instant::now();
    raw.lock();
    thread::scope(|s| {
        s.spawn(|| {
            raw.lock();
            served.store(true, Ordering::Relaxed);
            raw.release();
        });
        until(|| queued(&raw) == 1);
        while !served.load(Ordering::Relaxed) {
            assert!(start.elapsed() < Duration::from_secs(60), "starved");
            let held = Instant::now();
            while held.elapsed() < Duration::from_micros(500) {
                std::hint::spin_loop();
            }
            raw.release();
            raw.lock();
        }
        raw.release();
    });
    assert_eq!(state(&raw), FREE);
}

#[test]
fn the_holder_is_known_while_there_is_one() {
    let raw = RawMutex::INIT;
    let object = &raw const raw as usize;
    let here = 0u8;
    let here = &raw const here as usize;
    // SAFETY: `object` is the address of a live mutex.
    assert!(unsafe { RawMutex::holder_of(object) }.is_none());
    raw.lock();
    // SAFETY: `object` is the address of a live mutex.
    let page = unsafe { RawMutex::holder_of(object) }.expect("it is held");
    assert!(page.near(here).abs_diff(here) < 0x4000);
    thread::scope(|s| {
        s.spawn(|| {
            raw.lock();
            // SAFETY: `object` is the address of a live mutex.
            let page = unsafe { RawMutex::holder_of(object) }.expect("it is held");
            assert!(page.near(here).abs_diff(here) > 0x4000, "the woken waiter is the holder now");
            raw.release();
        });
        until(|| queued(&raw) == 1);
        raw.release();
    });
}
