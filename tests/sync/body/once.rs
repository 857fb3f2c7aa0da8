//! Once. By behaviour from Go's once_test.go: TestOnce; TestOncePanic differs: a panic does not count as
//! done.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use gort::sync::{Barrier, Once};

use super::{scope, test};
use crate::common::until;

#[test]
fn many_at_once_run_it_once_and_all_see_it_done() {
    for _ in 0..200 {
        let (once, runs, barrier) = (Once::new(), AtomicUsize::new(0), Barrier::new(10));
        scope(|s| {
            for _ in 0..10 {
                s.spawn(|| {
                    barrier.wait();
                    once.call_once(|| _ = runs.fetch_add(1, Ordering::Relaxed));
                    assert_eq!(runs.load(Ordering::Relaxed), 1);
                    assert!(once.is_completed());
                });
            }
        });
    }
}

#[test]
fn callers_wait_for_the_run_that_goes_on() {
    let (once, started, release) = (Once::new(), AtomicUsize::new(0), AtomicUsize::new(0));
    let done = AtomicUsize::new(0);
    scope(|s| {
        s.spawn(|| {
            once.call_once(|| {
                started.store(1, Ordering::Relaxed);
                until("the run may end", || release.load(Ordering::Relaxed) == 1);
            });
        });
        until("the run has begun", || started.load(Ordering::Relaxed) == 1);
        let others: Vec<_> = (0..3)
            .map(|_| {
                s.spawn(|| {
                    once.call_once(|| unreachable!("somebody runs it already"));
                    done.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        assert!(!once.is_completed());
        assert_eq!(done.load(Ordering::Relaxed), 0);
        release.store(1, Ordering::Relaxed);
        others.into_iter().for_each(|t| t.join().unwrap());
    });
    assert_eq!(done.into_inner(), 3);
}

#[test]
fn after_a_panic_one_of_those_that_wait_runs_its_own() {
    for _ in 0..100 {
        let (once, entered, runs) = (Once::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let mut panics = 0;
        scope(|s| {
            let all: Vec<_> = (0..4)
                .map(|_| {
                    s.spawn(|| {
                        catch_unwind(AssertUnwindSafe(|| {
                            once.call_once(|| {
                                if entered.fetch_add(1, Ordering::Relaxed) < 2 {
                                    panic!("not yet");
                                }
                                runs.fetch_add(1, Ordering::Relaxed);
                            });
                        }))
                        .is_err()
                    })
                })
                .collect();
            panics = all.into_iter().map(|t| usize::from(t.join().unwrap())).sum();
        });
        assert_eq!(panics, 2, "each panic stays with the one whose function it was");
        assert_eq!(runs.into_inner(), 1);
        assert!(once.is_completed());
    }
}

#[test]
fn waiting_needs_no_function() {
    let once = Once::new();
    scope(|s| {
        let waiters: Vec<_> = (0..3).map(|_| s.spawn(|| once.wait())).collect();
        // A failed attempt does not let them through.
        assert!(catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!("not yet")))).is_err());
        assert!(waiters.iter().all(|w| !w.is_finished()));
        once.call_once(|| {});
    });
    once.wait();
}
