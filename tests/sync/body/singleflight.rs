//! SingleFlight. By behaviour from golang.org/x/sync/singleflight: TestDo, TestDoErr, TestDoDupSuppress,
//! TestForget, TestPanicDo.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gort::sync::{Barrier, SingleFlight};

use super::{scope, sleep, test};
use crate::common::until;

#[test]
fn one_after_the_other_each_is_answered_anew() {
    let flights = SingleFlight::new();
    assert_eq!(flights.call("key", || 1), (1, false));
    assert_eq!(flights.call("key", || 2), (2, false));
    let failed: (Result<(), &str>, bool) = SingleFlight::new().call("key", || Err("no"));
    assert_eq!(failed, (Err("no"), false), "an error is a value like others");
}

#[test]
fn many_at_once_share_one_answer() {
    const N: usize = 10;
    // Callers join the first call while it goes on. A caller that comes too late makes a call of its own, so
    // a round may fail. That every round fails is as good as impossible.
    until("all callers of a round share the first call", || {
        let (flights, calls, asked) = (SingleFlight::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let started = Barrier::new(2);
        scope(|s| {
            let first = s.spawn(|| {
                flights.call("key", || {
                    calls.fetch_add(1, Ordering::Relaxed);
                    started.wait();
                    until("all callers come", || asked.load(Ordering::Relaxed) == N);
                    sleep(Duration::from_millis(1));
                    7
                })
            });
            started.wait();
            let others: Vec<_> = (0..N)
                .map(|_| {
                    s.spawn(|| {
                        asked.fetch_add(1, Ordering::Relaxed);
                        flights.call("key", || {
                            calls.fetch_add(1, Ordering::Relaxed);
                            7
                        })
                    })
                })
                .collect();
            assert_eq!(first.join().unwrap().0, 7);
            assert!(others.into_iter().all(|t| t.join().unwrap().0 == 7));
        });
        assert_eq!(format!("{flights:?}"), "SingleFlight { flights: Some(0) }");
        calls.into_inner() == 1
    });
}

#[test]
fn different_keys_do_not_meet() {
    let (flights, barrier) = (SingleFlight::new(), Barrier::new(4));
    scope(|s| {
        for key in 0..4 {
            let (flights, barrier) = (&flights, &barrier);
            s.spawn(move || {
                let result = flights.call(key, || {
                    barrier.wait();
                    key * 10
                });
                assert_eq!(result, (key * 10, false));
            });
        }
    });
}

#[test]
fn a_forgotten_call_is_made_anew_while_it_goes_on() {
    let (flights, started) = (SingleFlight::new(), Barrier::new(2));
    let release = AtomicUsize::new(0);
    scope(|s| {
        let first = s.spawn(|| {
            flights.call("key", || {
                started.wait();
                until("the first call may end", || release.load(Ordering::Relaxed) == 1);
                1
            })
        });
        started.wait();
        flights.forget(&"key");
        assert_eq!(flights.call("key", || 2), (2, false));
        release.store(1, Ordering::Relaxed);
        assert_eq!(first.join().unwrap(), (1, false));
    });
    flights.forget(&"unknown");
}

#[test]
fn a_panic_stays_with_its_caller_and_the_others_try() {
    for _ in 0..100 {
        let (flights, calls) = (SingleFlight::new(), AtomicUsize::new(0));
        let barrier = Barrier::new(4);
        scope(|s| {
            let all: Vec<_> = (0..4)
                .map(|_| {
                    s.spawn(|| {
                        barrier.wait();
                        catch_unwind(AssertUnwindSafe(|| {
                            flights.call("key", || match calls.fetch_add(1, Ordering::Relaxed) {
                                0 | 1 => panic!("not yet"),
                                _ => "value",
                            })
                        }))
                    })
                })
                .collect();
            let results: Vec<_> = all.into_iter().map(|t| t.join().unwrap()).collect();
            assert_eq!(results.iter().filter(|r| r.is_err()).count(), 2);
            assert!(results.iter().flatten().all(|(value, _)| *value == "value"));
        });
        assert_eq!(format!("{flights:?}"), "SingleFlight { flights: Some(0) }", "nothing stays behind");
    }
}

#[test]
fn a_lonely_panic_leaves_nothing_behind() {
    let flights = SingleFlight::new();
    assert!(catch_unwind(AssertUnwindSafe(|| flights.call(1, || panic!("no")))).is_err());
    assert_eq!(format!("{flights:?}"), "SingleFlight { flights: Some(0) }");
    assert_eq!(flights.call(1, || 5), (5, false));
}

#[test]
fn a_caller_that_panicked_shares_nothing() {
    let (flights, started, asked) = (SingleFlight::new(), Barrier::new(2), AtomicUsize::new(0));
    scope(|s| {
        let first = s.spawn(|| {
            catch_unwind(AssertUnwindSafe(|| {
                flights.call("key", || {
                    started.wait();
                    until("the second caller comes", || asked.load(Ordering::Relaxed) == 1);
                    panic!("not this one");
                })
            }))
        });
        let second = s.spawn(|| {
            started.wait();
            asked.fetch_add(1, Ordering::Relaxed);
            flights.call("key", || "value")
        });
        assert!(first.join().unwrap().is_err());
        assert_eq!(second.join().unwrap(), ("value", false));
    });
}
