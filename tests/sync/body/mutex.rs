//! Mutex. By behaviour from Go's mutex_test.go: TestMutex (hammer with try_lock), TestMutexFairness,
//! TestMutexMisuse (the mutex part).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::sync::{Mutex, MutexGuard};

use super::{scope, sleep, spawn, test, yield_now};
use crate::common::{panic_message, patience, until};

#[test]
fn a_hammered_mutex_excludes_and_loses_nobody() {
    let mutex = Mutex::new(0usize);
    let mut taken = 0;
    scope(|s| {
        let hammers: Vec<_> = (0..10)
            .map(|_| {
                s.spawn(|| {
                    let mut taken = 0;
                    for i in 0..1000 {
                        if i % 3 == 0 {
                            if let Some(mut value) = mutex.try_lock() {
                                *value += 1;
                                taken += 1;
                            }
                            continue;
                        }
                        *mutex.lock() += 1;
                        taken += 1;
                    }
                    taken
                })
            })
            .collect();
        taken = hammers.into_iter().map(|h| h.join().unwrap()).sum();
    });
    assert_eq!(mutex.into_inner(), taken);
}

#[test]
fn a_party_that_locks_again_at_once_does_not_starve_others() {
    let mutex = Arc::new(Mutex::new(()));
    let stop = Arc::new(AtomicBool::new(false));
    let hog = spawn({
        let (mutex, stop) = (mutex.clone(), stop.clone());
        move || {
            while !stop.load(Ordering::Relaxed) {
                let _held = mutex.lock();
                sleep(Duration::from_micros(100));
            }
        }
    });
    for _ in 0..10 {
        sleep(Duration::from_micros(100));
        assert!(mutex.try_lock_for(patience()).is_some());
    }
    stop.store(true, Ordering::Relaxed);
    hog.join().unwrap();
}

#[test]
fn a_panic_while_it_is_held_releases_it() {
    let mutex = Arc::new(Mutex::new(1));
    let panicked = spawn({
        let mutex = mutex.clone();
        move || {
            let mut value = mutex.lock();
            *value = 2;
            panic!("while holding");
        }
    });
    assert!(panicked.join().is_err());
    assert!(!mutex.is_locked());
    assert_eq!(*mutex.lock(), 2, "no poisoning: the value is as it was left");
}

#[test]
fn a_panic_while_it_is_held_wakes_a_waiter() {
    let mutex = Arc::new(Mutex::new(1));
    let waiting = Arc::new(AtomicBool::new(false));
    let panicking = spawn({
        let (mutex, waiting) = (mutex.clone(), waiting.clone());
        move || {
            let _held = mutex.lock();
            until("the other comes", || waiting.load(Ordering::Relaxed));
            panic!("while holding");
        }
    });
    until("it is held", || mutex.is_locked());
    waiting.store(true, Ordering::Relaxed);
    assert_eq!(*mutex.lock(), 1);
    assert!(panicking.join().is_err());
}

#[test]
fn zero_and_past_timeouts_try_once() {
    let mutex = Mutex::new(());
    assert!(mutex.try_lock_for(Duration::ZERO).is_some());
    assert!(mutex.try_lock_until(Instant::now() - Duration::from_millis(1)).is_some());
    let held = mutex.lock();
    assert!(mutex.try_lock_for(Duration::ZERO).is_none());
    assert!(mutex.try_lock_until(Instant::now()).is_none());
    drop(held);
}

#[test]
fn a_timeout_gives_up_not_before_its_time() {
    let mutex = Mutex::new(());
    let held = mutex.lock();
    let (start, timeout) = (Instant::now(), Duration::from_millis(20));
    assert!(mutex.try_lock_for(timeout).is_none());
    assert!(start.elapsed() >= timeout);
    drop(held);
    assert!(mutex.try_lock().is_some());
}

#[test]
fn the_longest_timeouts_mean_for_ever() {
    let mutex = Mutex::new(());
    let turns = AtomicUsize::new(0);
    let held = mutex.lock();
    scope(|s| {
        for timeout in [Duration::MAX, Duration::MAX / 2, Duration::from_secs(u64::MAX >> 1)] {
            let (mutex, turns) = (&mutex, &turns);
            s.spawn(move || {
                assert!(mutex.try_lock_for(timeout).is_some());
                turns.fetch_add(1, Ordering::Relaxed);
            });
        }
        yield_now();
        assert_eq!(turns.load(Ordering::Relaxed), 0);
        drop(held);
    });
    assert_eq!(turns.into_inner(), 3);
}

#[test]
fn tiny_timeouts_under_contention_leave_a_usable_mutex() {
    let mutex = Mutex::new(0usize);
    let expected = AtomicUsize::new(0);
    scope(|s| {
        for n in 0..8u64 {
            let (mutex, expected) = (&mutex, &expected);
            s.spawn(move || {
                for i in 0..500u64 {
                    if let Some(mut value) = mutex.try_lock_for(Duration::from_nanos((n * i * 97) % 30_000)) {
                        *value += 1;
                        expected.fetch_add(1, Ordering::Relaxed);
                        if i % 16 == 0 {
                            yield_now();
                        }
                    }
                }
            });
        }
    });
    assert!(!mutex.is_locked());
    assert_eq!(*mutex.try_lock_for(patience()).unwrap(), expected.into_inner());
}

#[test]
fn a_fair_unlock_lets_a_waiter_go_first() {
    let mutex = Arc::new(Mutex::new(0));
    for _ in 0..100 {
        let mut guard = mutex.lock();
        *guard = 0;
        let other = spawn({
            let mutex = mutex.clone();
            move || *mutex.lock() = 1
        });
        // `bump` hands the lock over if the other waits. Otherwise we keep it.
        until("the waiter has had the lock", || {
            MutexGuard::bump(&mut guard);
            *guard == 1
        });
        drop(guard);
        other.join().unwrap();
    }
}

#[test]
fn an_unlock_too_many_is_reported_and_harms_nothing() {
    let mutex = Mutex::new(());
    let message = panic_message(|| {
        // SAFETY: unsound on purpose: nobody holds the lock, and it has to notice.
        unsafe { mutex.force_unlock() };
    });
    assert!(message.contains("unlocked mutex"), "{message}");
    drop(mutex.lock());
    assert!(mutex.try_lock().is_some());
}

#[test]
fn it_can_be_a_static_and_is_small() {
    static GLOBAL: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    GLOBAL.lock().push(1);
    assert_eq!(*GLOBAL.lock(), [1]);
    assert!(size_of::<Mutex<()>>() <= 24);
}

#[test]
fn guards_map_and_locks_open_up() {
    let mut mutex = Mutex::new((1, String::from("two")));
    {
        let mut text = MutexGuard::map(mutex.lock(), |pair| &mut pair.1);
        text.push('!');
        assert!(mutex.is_locked());
    }
    mutex.get_mut().0 = 5;
    assert_eq!(mutex.into_inner(), (5, String::from("two!")));
}
