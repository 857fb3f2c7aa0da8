//! Tests of the semaphore's internals: hand-over, order, and the state after a waiter has given up.

use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::sync::Semaphore;
use crate::sync::raw::semaphore::ONE;
use crate::test_util::until;

fn queued(semaphore: &Semaphore) -> usize {
    semaphore.raw().waiting.lock().queue.len()
}

#[test]
fn released_permits_are_handed_to_the_waiter_and_cannot_be_snatched() {
    let semaphore = Semaphore::new(1);
    let leave = AtomicBool::new(false);
    let held = semaphore.acquire(1).unwrap();
    thread::scope(|s| {
        s.spawn(|| {
            let _permit = semaphore.acquire(1).unwrap();
            until(|| leave.load(Ordering::Relaxed));
        });
        until(|| queued(&semaphore) == 1);
        drop(held);
        // This cannot race: the release itself has given the permit to the waiter.
        assert_eq!(semaphore.available_permits(), 0);
        assert_eq!(queued(&semaphore), 0);
        assert!(semaphore.try_acquire(1).is_none());
        leave.store(true, Ordering::Relaxed);
    });
    assert_eq!(semaphore.raw().state.load(Ordering::Relaxed), ONE);
}

#[test]
fn requests_are_served_in_their_order_whatever_their_size() {
    let semaphore = Semaphore::new(4);
    let order = StdMutex::new(Vec::new());
    let held = semaphore.acquire(4).unwrap();
    thread::scope(|s| {
        // Each request needs permits that the one before it holds, so they cannot finish in another order.
        for (n, weight) in [3, 2, 4, 1, 4].into_iter().enumerate() {
            let (semaphore, order) = (&semaphore, &order);
            s.spawn(move || {
                let permit = semaphore.acquire(weight).unwrap();
                order.lock().unwrap().push(n);
                drop(permit);
            });
            until(|| queued(semaphore) == n + 1);
        }
        assert!(semaphore.try_acquire(1).is_none());
        drop(held);
    });
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn while_a_large_request_waits_small_ones_do_not_pass_it() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.acquire(1).unwrap();
    thread::scope(|s| {
        let large = s.spawn(|| semaphore.acquire(2).unwrap().permits());
        until(|| queued(&semaphore) == 1);
        assert_eq!(semaphore.available_permits(), 1);
        assert!(semaphore.try_acquire(1).is_none());
        assert!(semaphore.acquire_timeout(1, Duration::from_micros(100)).unwrap().is_none());
        drop(held);
        assert_eq!(large.join().unwrap(), 2);
    });
}

#[test]
fn a_large_request_that_gives_up_lets_those_behind_it_go() {
    let semaphore = Semaphore::new(2);
    let _held = semaphore.acquire(1).unwrap();
    thread::scope(|s| {
        let large = s.spawn(|| semaphore.acquire_timeout(2, Duration::from_millis(20)).unwrap().is_some());
        until(|| queued(&semaphore) == 1 || large.is_finished());
        let small = s.spawn(|| semaphore.acquire(1).unwrap().permits());
        assert!(!large.join().unwrap());
        assert_eq!(small.join().unwrap(), 1, "though nobody has released anything");
    });
}

#[test]
fn a_waiter_that_gives_up_leaves_nothing_behind() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire(1).unwrap();
    assert!(semaphore.acquire_timeout(1, Duration::from_micros(200)).unwrap().is_none());
    assert_eq!(semaphore.raw().state.load(Ordering::Relaxed), 0);
    assert_eq!(queued(&semaphore), 0);
    drop(held);
    assert!(semaphore.try_acquire(1).is_some());
}
