//! Condvar. By behaviour from Go's cond_test.go: TestCondSignal, TestCondSignalGenerations,
//! TestCondBroadcast, TestRace, TestCondSignalStealing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::sync::{Condvar, Mutex};

use super::{scope, spawn, test};
use crate::common::until;

#[test]
fn each_notification_wakes_one() {
    const N: usize = 5;
    let (mutex, cond) = (Mutex::new(0), Condvar::new());
    let awake = AtomicUsize::new(0);
    scope(|s| {
        for _ in 0..N {
            s.spawn(|| {
                let mut waiting = mutex.lock();
                *waiting += 1;
                cond.wait(&mut waiting);
                awake.fetch_add(1, Ordering::Relaxed);
            });
        }
        until("all wait", || *mutex.lock() == N);
        for woken in 1..=N {
            assert_eq!(awake.load(Ordering::Relaxed), woken - 1, "nobody wakes up by itself");
            {
                let _held = mutex.lock();
                assert!(cond.notify_one());
            }
            until("one more is awake", || awake.load(Ordering::Relaxed) == woken);
        }
        assert!(!cond.notify_one(), "nobody is left");
        assert_eq!(cond.notify_all(), 0);
    });
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    const N: usize = 100;
    let (mutex, cond) = (Mutex::new(0), Condvar::new());
    let order = Mutex::new(Vec::new());
    scope(|s| {
        for n in 0..N {
            let (mutex, cond, order) = (&mutex, &cond, &order);
            s.spawn(move || {
                let mut waiting = mutex.lock();
                *waiting += 1;
                cond.wait(&mut waiting);
                order.lock().push(n);
            });
            until("one more waits", || *mutex.lock() == n + 1);
        }
        for n in 0..N {
            assert!(cond.notify_one());
            until("one more is awake", || order.lock().len() == n + 1);
        }
    });
    assert!(order.into_inner().into_iter().eq(0..N));
}

#[test]
fn a_broadcast_wakes_all_and_only_those_that_wait() {
    const N: usize = 50;
    let (mutex, cond) = (Mutex::new((0, 0, false)), Condvar::new());
    scope(|s| {
        for _ in 0..N {
            s.spawn(|| {
                let mut state = mutex.lock();
                while !state.2 {
                    state.0 += 1;
                    cond.wait(&mut state);
                    state.1 += 1;
                }
            });
        }
        for round in 1..=3 {
            until("all wait again", || mutex.lock().0 == round * N);
            let mut state = mutex.lock();
            assert_eq!(state.1, (round - 1) * N);
            state.2 = round == 3;
            assert_eq!(cond.notify_all(), N);
        }
    });
    assert_eq!(mutex.into_inner(), (3 * N, 3 * N, true));
}

#[test]
fn three_parties_take_turns() {
    let (mutex, cond) = (Mutex::new(0), Condvar::new());
    scope(|s| {
        s.spawn(|| {
            let mut x = mutex.lock();
            *x = 1;
            cond.wait(&mut x);
            assert_eq!(*x, 2);
            *x = 3;
            cond.notify_one();
        });
        s.spawn(|| {
            until("it is the second party's turn", || {
                let mut x = mutex.lock();
                if *x == 1 {
                    *x = 2;
                    cond.notify_one();
                    return true;
                }
                false
            });
        });
        s.spawn(|| {
            until("it is the third party's turn", || {
                let mut x = mutex.lock();
                if *x == 2 {
                    cond.wait(&mut x);
                    assert_eq!(*x, 3);
                    return true;
                }
                *x == 3
            });
        });
    });
}

#[test]
fn a_late_waiter_does_not_steal_a_notification() {
    for _ in 0..200 {
        let (mutex, cond) = (Mutex::new((false, false)), Condvar::new());
        scope(|s| {
            s.spawn(|| {
                let mut state = mutex.lock();
                state.0 = true;
                cond.wait(&mut state);
            });
            until("the first waits", || mutex.lock().0);
            s.spawn(|| {
                let mut state = mutex.lock();
                cond.wait_while(&mut state, |state| !state.1);
            });
            // The first waiter already waits, so the notification is for it.
            assert!(cond.notify_one());
            // The second waiter sees this, whether it has begun to wait or not.
            let mut state = mutex.lock();
            state.1 = true;
            cond.notify_all();
        });
    }
}

#[test]
fn a_bounded_buffer_keeps_everything() {
    const ITEMS: usize = 2000;
    struct Buffer {
        items: Mutex<Vec<usize>>,
        not_full: Condvar,
        not_empty: Condvar,
    }
    let buffer =
        Buffer { items: Mutex::new(Vec::new()), not_full: Condvar::new(), not_empty: Condvar::new() };
    let mut sum = 0;
    scope(|s| {
        for start in 0..4 {
            let buffer = &buffer;
            s.spawn(move || {
                for item in (start..ITEMS).step_by(4) {
                    let mut items = buffer.items.lock();
                    buffer.not_full.wait_while(&mut items, |items| items.len() >= 3);
                    items.push(item);
                    buffer.not_empty.notify_one();
                }
            });
        }
        let takers: Vec<_> = (0..4)
            .map(|_| {
                s.spawn(|| {
                    (0..ITEMS / 4)
                        .map(|_| {
                            let mut items = buffer.items.lock();
                            buffer.not_empty.wait_while(&mut items, |items| items.is_empty());
                            let item = items.pop().unwrap();
                            buffer.not_full.notify_one();
                            item
                        })
                        .sum::<usize>()
                })
            })
            .collect();
        sum = takers.into_iter().map(|t| t.join().unwrap()).sum();
    });
    assert_eq!(sum, ITEMS * (ITEMS - 1) / 2);
}

#[test]
fn timeouts_are_kept_and_the_mutex_is_held_again() {
    let (mutex, cond) = (Mutex::new(()), Condvar::new());
    let timeout = Duration::from_millis(10);
    let mut guard = mutex.lock();
    let start = Instant::now();
    assert!(cond.wait_for(&mut guard, timeout).timed_out());
    assert!(start.elapsed() >= timeout);
    let start = Instant::now();
    assert!(cond.wait_until(&mut guard, start + timeout).timed_out());
    assert!(start.elapsed() >= timeout);
    assert!(cond.wait_for(&mut guard, Duration::ZERO).timed_out());
    assert!(cond.wait_while_for(&mut guard, |()| true, Duration::ZERO).timed_out());
    assert!(cond.wait_while_until(&mut guard, |()| true, Instant::now()).timed_out());
    assert!(!cond.wait_while_for(&mut guard, |()| false, Duration::ZERO).timed_out());
    assert!(mutex.is_locked());
    drop(guard);
    assert!(!cond.notify_one(), "those that gave up are gone");
}

#[test]
fn the_longest_timeouts_mean_for_ever() {
    let (mutex, cond) = (Mutex::new(0), Condvar::new());
    scope(|s| {
        s.spawn(|| {
            let mut state = mutex.lock();
            *state += 1;
            assert!(!cond.wait_for(&mut state, Duration::MAX).timed_out());
        });
        s.spawn(|| {
            let mut state = mutex.lock();
            *state += 1;
            assert!(!cond.wait_while_for(&mut state, |state| *state != 10, Duration::MAX).timed_out());
        });
        until("both wait", || *mutex.lock() == 2);
        *mutex.lock() = 10;
        assert_eq!(cond.notify_all(), 2);
    });
}

#[test]
fn one_condvar_serves_several_mutexes() {
    let (first, second, cond) = (Mutex::new(false), Mutex::new(false), Condvar::new());
    scope(|s| {
        for mutex in [&first, &second] {
            let cond = &cond;
            s.spawn(move || {
                let mut waiting = mutex.lock();
                *waiting = true;
                cond.wait(&mut waiting);
            });
        }
        until("both wait", || *first.lock() && *second.lock());
        assert_eq!(cond.notify_all(), 2);
    });
}

#[test]
fn a_notification_with_timeouts_around_is_never_lost() {
    let (mutex, cond) = (Mutex::new(0usize), Condvar::new());
    let taken = AtomicUsize::new(0);
    const TOKENS: usize = 500;
    scope(|s| {
        for n in 0..4u64 {
            let (mutex, cond, taken) = (&mutex, &cond, &taken);
            s.spawn(move || {
                while taken.load(Ordering::Relaxed) < TOKENS {
                    let mut tokens = mutex.lock();
                    let timeout = Duration::from_micros(20 + n * 35);
                    if !cond.wait_while_for(&mut tokens, |tokens| *tokens == 0, timeout).timed_out() {
                        *tokens -= 1;
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..TOKENS {
            *mutex.lock() += 1;
            cond.notify_one();
        }
    });
    assert_eq!(taken.into_inner(), TOKENS);
    assert_eq!(mutex.into_inner(), 0);
}

#[test]
fn it_can_be_a_static() {
    static STATE: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
    let other = spawn(|| {
        *STATE.0.lock() = true;
        STATE.1.notify_one();
    });
    STATE.1.wait_while(&mut STATE.0.lock(), |ready| !*ready);
    other.join().unwrap();
}
