//! Semaphore. By behaviour from Go's mutex_test.go: TestSemaphore; and from golang.org/x/sync/semaphore:
//! TestWeighted, TestWeightedTryAcquire, TestWeightedAcquire, TestWeightedDoesntBlockIfTooBig,
//! TestLargeAcquireDoesntStarve, TestAllocCancelDoesntStarve, TestWeightedAcquireCanceled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::sync::{Semaphore, TooManyPermits};

use super::{scope, sleep, spawn, test};
use crate::common::{panic_message, patience, until};

#[test]
fn never_more_at_once_than_there_are_permits() {
    const PERMITS: usize = 3;
    let semaphore = Semaphore::new(PERMITS);
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    scope(|s| {
        for n in 0..8 {
            let (semaphore, inside, most) = (&semaphore, &inside, &most);
            s.spawn(move || {
                for i in 0..500 {
                    let weight = 1 + (n + i) % PERMITS;
                    let permit = semaphore.acquire(weight).unwrap();
                    let now = inside.fetch_add(weight, Ordering::Relaxed) + weight;
                    assert!(now <= PERMITS);
                    most.fetch_max(now, Ordering::Relaxed);
                    inside.fetch_sub(weight, Ordering::Relaxed);
                    assert_eq!(permit.permits(), weight);
                }
            });
        }
    });
    assert_eq!(most.into_inner(), PERMITS);
    assert_eq!(semaphore.available_permits(), PERMITS);
}

#[test]
fn permits_are_counted() {
    let semaphore = Semaphore::new(2);
    let a = semaphore.acquire(1).unwrap();
    let b = semaphore.acquire(1).unwrap();
    assert!(semaphore.try_acquire(1).is_none());
    assert!(semaphore.try_acquire(0).is_some(), "nothing is always free");
    drop(a);
    drop(b);
    let all = semaphore.try_acquire(2).unwrap();
    assert!(semaphore.try_acquire(1).is_none());
    drop(all);
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn too_many_is_an_error_at_once_and_in_nobody_s_way() {
    let semaphore = Semaphore::new(2);
    let error = TooManyPermits { requested: 3, maximum: 2 };
    let held = semaphore.acquire(2).unwrap();
    assert_eq!(semaphore.acquire(3).unwrap_err(), error);
    assert_eq!(semaphore.acquire_timeout(3, patience()).unwrap_err(), error);
    assert_eq!(semaphore.acquire(usize::MAX).unwrap_err().requested, usize::MAX);
    assert!(semaphore.try_acquire(3).is_none());
    assert!(semaphore.try_acquire(usize::MAX).is_none());
    drop(held);
    assert!(semaphore.try_acquire(2).is_some());
}

#[test]
fn a_large_request_is_not_starved_by_small_ones() {
    const SMALL: usize = 4;
    let semaphore = Arc::new(Semaphore::new(SMALL));
    let stop = Arc::new(AtomicBool::new(false));
    let all: Vec<_> = (0..SMALL)
        .map(|_| {
            let (semaphore, stop) = (semaphore.clone(), stop.clone());
            spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let _permit = semaphore.acquire(1).unwrap();
                    sleep(Duration::from_micros(100));
                }
            })
        })
        .collect();
    for _ in 0..10 {
        assert!(semaphore.acquire_timeout(SMALL, patience()).unwrap().is_some());
    }
    stop.store(true, Ordering::Relaxed);
    all.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn timeouts_give_up_not_before_their_time() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire(1).unwrap();
    let (start, timeout) = (Instant::now(), Duration::from_millis(10));
    assert!(semaphore.acquire_timeout(1, timeout).unwrap().is_none());
    assert!(start.elapsed() >= timeout);
    assert!(semaphore.acquire_timeout(1, Duration::ZERO).unwrap().is_none());
    assert!(semaphore.acquire_deadline(1, start).unwrap().is_none());
    scope(|s| {
        let for_ever = s.spawn(|| semaphore.acquire_timeout(1, Duration::MAX).unwrap().is_some());
        drop(held);
        assert!(for_ever.join().unwrap());
    });
    assert!(semaphore.acquire_timeout(1, Duration::ZERO).unwrap().is_some());
}

#[test]
fn forgotten_permits_stay_away_until_others_are_added() {
    let semaphore = Semaphore::new(2);
    semaphore.acquire(2).unwrap().forget();
    assert_eq!(semaphore.available_permits(), 0);
    scope(|s| {
        let waiter = s.spawn(|| semaphore.acquire(2).map(|p| p.permits()));
        semaphore.add_permits(1);
        semaphore.add_permits(1);
        assert_eq!(waiter.join().unwrap(), Ok(2), "still below the maximum, so it waited");
    });
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn added_permits_raise_the_maximum() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire(1).unwrap();
    assert_eq!(semaphore.acquire(2).unwrap_err().maximum, 1);
    semaphore.add_permits(1);
    scope(|s| {
        let waiter = s.spawn(|| semaphore.acquire(2).map(|p| p.permits()));
        drop(held);
        assert_eq!(waiter.join().unwrap(), Ok(2));
    });
    assert!(panic_message(|| semaphore.add_permits(Semaphore::MAX_PERMITS)).contains("MAX_PERMITS"));
    assert_eq!(semaphore.available_permits(), 2);
    assert!(panic_message(|| drop(Semaphore::new(usize::MAX))).contains("MAX_PERMITS"));
    assert_eq!(Semaphore::new(Semaphore::MAX_PERMITS).available_permits(), Semaphore::MAX_PERMITS);
}

#[test]
fn it_can_begin_empty() {
    let semaphore = Semaphore::with_maximum(0, 10);
    let got = AtomicUsize::new(0);
    scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                semaphore.acquire(1).unwrap().forget();
                got.fetch_add(1, Ordering::Relaxed);
            });
        }
        for n in 1..=3 {
            semaphore.add_permits(1);
            until("one more has a permit", || got.load(Ordering::Relaxed) == n);
        }
    });
    assert_eq!(semaphore.available_permits(), 0);
}

#[test]
fn a_panic_gives_permits_back() {
    let semaphore = Arc::new(Semaphore::new(2));
    let panicked = spawn({
        let semaphore = semaphore.clone();
        move || {
            let _permit = semaphore.acquire(2).unwrap();
            panic!("while holding");
        }
    });
    assert!(panicked.join().is_err());
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn owned_permits_go_anywhere() {
    let semaphore = Arc::new(Semaphore::new(3));
    let permit = semaphore.acquire_owned(2).unwrap();
    assert_eq!(semaphore.acquire_owned(4).unwrap_err().maximum, 3);
    assert!(semaphore.try_acquire_owned(2).is_none());
    spawn(move || drop(permit)).join().unwrap();
    semaphore.try_acquire_owned(1).unwrap().forget();
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn tiny_timeouts_under_contention_lose_no_permit() {
    let semaphore = Semaphore::new(3);
    scope(|s| {
        for n in 0..6u64 {
            let semaphore = &semaphore;
            s.spawn(move || {
                for i in 0..300u64 {
                    let weight = 1 + (n + i) as usize % 3;
                    let timeout = Duration::from_nanos((n * i * 89) % 40_000);
                    drop(semaphore.acquire_timeout(weight, timeout).unwrap());
                }
            });
        }
    });
    assert_eq!(semaphore.available_permits(), 3);
    assert!(semaphore.try_acquire(3).is_some());
}
