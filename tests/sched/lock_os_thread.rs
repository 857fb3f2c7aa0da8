//! `lock_os_thread`: a goroutine and its thread belong to each other.

#[path = "../common/mod.rs"]
mod common;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::{Procs, amount, migrate, threads, tid, until};
use gort::runtime::{lock_os_thread, os_thread_guard, unlock_os_thread};

/// Runs `f` while other goroutines yield, spawn and join all the time.
fn amid_traffic<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    let stop = AtomicBool::new(false);
    gort::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    gort::spawn(gort::yield_now).join().unwrap();
                }
            });
        }
        let result = s.spawn(f).join();
        stop.store(true, Ordering::Relaxed);
        result.unwrap()
    })
}

#[test]
fn a_locked_goroutine_stays_on_its_thread_and_has_it_for_itself() {
    for procs in [1, 2, 4] {
        let _procs = Procs::set(procs);
        let own = Arc::new(AtomicUsize::new(0));
        let intruders = Arc::new(AtomicUsize::new(0));
        let (others_own, others_intruders) = (own.clone(), intruders.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let watcher = gort::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                let here = tid() as usize;
                others_intruders
                    .fetch_add(usize::from(here == others_own.load(Ordering::Relaxed)), Ordering::Relaxed);
                gort::spawn(|| ()).join().unwrap();
                gort::yield_now();
            }
        });
        amid_traffic(|| {
            let _bound = os_thread_guard();
            let thread = tid();
            own.store(thread as usize, Ordering::Relaxed);
            for n in 0..amount(200, 20_000) {
                match n % 3 {
                    0 => gort::yield_now(),
                    1 => gort::spawn(|| ()).join().unwrap(),
                    _ => gort::scope(|s| drop(s.spawn(gort::yield_now))),
                }
                assert_eq!(tid(), thread);
            }
            own.store(0, Ordering::Relaxed);
        });
        stop.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
        assert_eq!(intruders.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn locks_nest() {
    let _procs = Procs::set(4);
    gort::run(|| {
        lock_os_thread();
        let thread = tid();
        let outer = os_thread_guard();
        let inner = os_thread_guard();
        lock_os_thread();
        for undo in 0..4 {
            for _ in 0..50 {
                gort::spawn(gort::yield_now).join().unwrap();
                assert_eq!(tid(), thread, "after {undo} of 4 were undone");
            }
            match undo {
                0 => unlock_os_thread(),
                1 => unlock_os_thread(),
                _ => {}
            }
        }
        drop(inner);
        drop(outer);
        // Unlocked: the goroutine can move.
        migrate();
        assert_ne!(tid(), thread);
    });
}

#[test]
fn unlocking_without_a_lock_is_harmless() {
    unlock_os_thread();
    let _procs = Procs::set(4);
    gort::run(|| {
        for _ in 0..10 {
            unlock_os_thread();
        }
        // If these calls had counted, the lock would not hold now.
        let _bound = os_thread_guard();
        let thread = tid();
        for _ in 0..100 {
            gort::spawn(gort::yield_now).join().unwrap();
            assert_eq!(tid(), thread);
        }
    });
    drop(os_thread_guard());
    lock_os_thread();
    unlock_os_thread();
}

#[test]
fn a_goroutine_that_ends_locked_takes_its_thread_with_it() {
    let _procs = Procs::set(4);
    for _ in 0..amount(20, 1_000) {
        let thread = gort::spawn(|| {
            lock_os_thread();
            gort::yield_now();
            tid()
        })
        .join()
        .unwrap();
        until("the thread has ended", || !threads().contains(&thread));
    }
    // So does a goroutine that panics.
    let thread = Arc::new(AtomicUsize::new(0));
    let seen = thread.clone();
    let failed = gort::spawn(move || {
        lock_os_thread();
        seen.store(tid() as usize, Ordering::Relaxed);
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(failed.join().is_err());
    until("the thread has ended", || !threads().contains(&(thread.load(Ordering::Relaxed) as i32)));
    assert_eq!(gort::run(|| 1), 1);
}

#[test]
fn a_goroutine_that_ends_unlocked_leaves_its_thread() {
    let _procs = Procs::set(2);
    for _ in 0..200 {
        let thread = gort::spawn(|| {
            drop(os_thread_guard());
            tid()
        })
        .join()
        .unwrap();
        assert!(threads().contains(&thread));
    }
}

#[test]
fn many_locked_goroutines_hand_work_to_each_other() {
    for procs in [1, 2, 4] {
        let _procs = Procs::set(procs);
        let turn = Arc::new(AtomicUsize::new(0));
        const N: usize = 20;
        let rounds = amount(20, 2_000);
        let handles: Vec<_> = (0..N)
            .map(|n| {
                let turn = turn.clone();
                gort::spawn(move || {
                    let _bound = os_thread_guard();
                    let thread = tid();
                    for round in 0..rounds {
                        until("it is this one's turn", || turn.load(Ordering::Acquire) == round * N + n);
                        assert_eq!(tid(), thread);
                        turn.fetch_add(1, Ordering::Release);
                    }
                    thread
                })
            })
            .collect();
        let own: HashSet<i32> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
        assert_eq!(own.len(), N, "two shared a thread");
    }
}

#[test]
fn locked_goroutines_join_each_other() {
    for procs in [1, 2, 4] {
        let _procs = Procs::set(procs);
        fn chain(depth: usize) -> usize {
            let _bound = os_thread_guard();
            if depth == 0 {
                return 0;
            }
            let thread = tid();
            let below = gort::spawn(move || chain(depth - 1)).join().unwrap();
            assert_eq!(tid(), thread);
            below + 1
        }
        for _ in 0..amount(5, 100) {
            assert_eq!(gort::run(|| chain(30)), 30);
        }
    }
}

#[test]
fn a_yield_loop_of_a_locked_goroutine_can_be_long() {
    let _procs = Procs::set(2);
    gort::run(|| {
        let _bound = os_thread_guard();
        let thread = tid();
        for _ in 0..amount(5_000, 200_000) {
            gort::yield_now();
        }
        assert_eq!(tid(), thread);
    });
}

#[test]
fn locked_goroutines_survive_changes_of_max_procs() {
    let _procs = Procs::set(4);
    let stop = AtomicBool::new(false);
    gort::scope(|s| {
        for _ in 0..6 {
            s.spawn(|| {
                let _bound = os_thread_guard();
                let thread = tid();
                while !stop.load(Ordering::Relaxed) {
                    gort::yield_now();
                    gort::spawn(|| ()).join().unwrap();
                    assert_eq!(tid(), thread);
                }
            });
        }
        for n in 0..amount(200, 10_000) {
            gort::runtime::set_max_procs([1, 8, 2, 4][n % 4]);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_locked_goroutine_has_whole_slices_beside_an_endless_loop() {
    let _procs = Procs::set(1);
    let stop = AtomicBool::new(false);
    let work = |count: &AtomicUsize| {
        std::hint::black_box((0..10_000).fold(0u64, |sum, n| std::hint::black_box(sum ^ n)));
        count.fetch_add(1, Ordering::Relaxed);
    };
    let [locked, endless] = [(); 2].map(|()| AtomicUsize::new(0));
    let slices = || gort::runtime::stats().preempted_by_signal;
    gort::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                work(&endless);
            }
        });
        s.spawn(|| {
            let _bound = os_thread_guard();
            while !stop.load(Ordering::Relaxed) {
                work(&locked);
                gort::checkpoint();
            }
        });
        until("both have begun", || {
            [&locked, &endless].iter().all(|count| count.load(Ordering::Relaxed) != 0)
        });
        let before = slices();
        until("they have taken turns", || slices() >= before + amount(20, 200) as u64);
        stop.store(true, Ordering::Relaxed);
    });
    let [locked, endless] = [locked, endless].map(AtomicUsize::into_inner);
    assert!(locked > endless / 3, "{locked} turns beside {endless}");
}
