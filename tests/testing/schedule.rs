//! The schedule of a bubble.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use gort::chan::{bounded, select, unbounded};
use gort::sync::{Condvar, Mutex, RwLock, WaitGroup};
use gort::testing::{Bubble, bubble, wait};
use gort::time::{after_func, now, sleep};

use crate::{HOUR, MS};

#[test]
fn wait_lets_everything_happen_that_can() {
    bubble(|| {
        wait();
        let start = now();
        let done = Arc::new(AtomicBool::new(false));
        let set = done.clone();
        let other = gort::spawn(move || {
            for _ in 0..10 {
                gort::yield_now();
            }
            gort::spawn(move || set.store(true, Ordering::Relaxed)).join().unwrap();
            sleep(HOUR);
        });
        assert!(!done.load(Ordering::Relaxed));
        wait();
        assert!(done.load(Ordering::Relaxed));
        assert_eq!(now(), start, "without the clock");
        other.join().unwrap();
    });
    assert!(std::panic::catch_unwind(wait).is_err(), "not outside");
}

#[test]
fn every_primitive_counts_as_waiting() {
    bubble(|| {
        let start = now();
        let (mutex, condvar) = (Arc::new(Mutex::new(false)), Arc::new(Condvar::new()));
        let lock = Arc::new(RwLock::new(0));
        let group = WaitGroup::new();
        let (s, r) = bounded(0);
        let (m, c) = (mutex.clone(), condvar.clone());
        group.go(move || c.wait_while(&mut m.lock(), |ready| !*ready));
        let written = lock.write();
        let l = lock.clone();
        group.go(move || drop(l.read()));
        group.go(move || assert_eq!(r.recv(), Ok(1)));
        group.go(move || sleep(HOUR));
        wait();
        sleep(HOUR);
        assert_eq!(now(), start + HOUR);
        *mutex.lock() = true;
        condvar.notify_all();
        drop(written);
        s.send(1).unwrap();
        group.wait();
        assert_eq!(now(), start + HOUR);
    });
}

#[test]
fn one_goroutine_at_a_time() {
    bubble(|| {
        let inside = Arc::new(AtomicUsize::new(0));
        let group = WaitGroup::new();
        for _ in 0..50 {
            let inside = inside.clone();
            group.go(move || {
                for _ in 0..20 {
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                    std::hint::black_box((0..200).sum::<u64>());
                    inside.fetch_sub(1, Ordering::Relaxed);
                    gort::yield_now();
                }
            });
        }
        group.wait();
    });
}

/// Runs a busy program and returns what it did, step by step.
fn history(seed: u64) -> Vec<(u32, Duration)> {
    Bubble::new().seed(seed).run(|| {
        let start = now();
        let steps = Arc::new(Mutex::new(Vec::new()));
        let (s, r) = bounded::<u32>(2);
        let (s2, r2) = unbounded::<u32>();
        let group = WaitGroup::new();
        for n in 0..8u32 {
            let (steps, s, s2, r, r2) = (steps.clone(), s.clone(), s2.clone(), r.clone(), r2.clone());
            group.go(move || {
                for round in 0..10u32 {
                    select! {
                        send(s, n) -> _ => {}
                        recv(r) -> _ => {}
                        recv(r2) -> m => assert!(m.is_ok()),
                        default((n % 3 + 1) * MS) => s2.send(n).unwrap(),
                    }
                    steps.lock().push((n * 100 + round, now() - start));
                    if round % 3 == 0 {
                        sleep(n * MS);
                    }
                }
            });
        }
        after_func(3 * MS, {
            let steps = steps.clone();
            move || steps.lock().push((9_999, now() - start))
        });
        group.wait();
        sleep(HOUR);
        Arc::try_unwrap(steps).map_or_else(|steps| steps.lock().clone(), Mutex::into_inner)
    })
}

#[test]
fn a_seed_determines_the_schedule() {
    let mut different = std::collections::HashSet::new();
    for seed in 0..20 {
        let first = history(seed);
        for _ in 0..3 {
            assert_eq!(history(seed), first, "seed {seed}");
        }
        different.insert(first);
    }
    assert!(different.len() > 10, "seeds make a difference");
}

/// A bug that shows only in some orders: another goroutine runs between the check and the act.
#[test]
fn some_seed_finds_a_race() {
    let sells_too_many = |seed| {
        Bubble::new().seed(seed).run(|| {
            let left = Arc::new(AtomicUsize::new(1));
            let sold = Arc::new(AtomicUsize::new(0));
            let group = WaitGroup::new();
            for _ in 0..2 {
                let (left, sold) = (left.clone(), sold.clone());
                group.go(move || {
                    if left.load(Ordering::Relaxed) > 0 {
                        gort::yield_now();
                        left.store(0, Ordering::Relaxed);
                        sold.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            group.wait();
            sold.load(Ordering::Relaxed) == 2
        })
    };
    let found: Vec<bool> = (0..50).map(sells_too_many).collect();
    assert!(found.contains(&true) && found.contains(&false));
}

/// The clock of a bubble stands still while a goroutine runs, and yet every wait for a lock ends.
#[test]
fn no_goroutine_is_kept_from_a_lock_for_ever() {
    for seed in 0..20 {
        Bubble::new().seed(seed).run(|| {
            let flag = Arc::new(Mutex::new(false));
            let other = flag.clone();
            gort::spawn(move || *other.lock() = true);
            loop {
                let guard = flag.lock();
                if *guard {
                    break;
                }
                gort::yield_now();
            }
        });
        Bubble::new().seed(seed).run(|| {
            let flag = Arc::new(RwLock::new(false));
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let flag = flag.clone();
                    gort::spawn(move || {
                        // The reads of the two readers overlap.
                        loop {
                            let guard = flag.read();
                            if *guard {
                                break;
                            }
                            gort::yield_now();
                            gort::yield_now();
                        }
                    })
                })
                .collect();
            let writer = gort::spawn(move || *flag.write() = true);
            readers.into_iter().chain([writer]).for_each(|handle| handle.join().unwrap());
        });
    }
}
