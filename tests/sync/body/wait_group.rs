//! WaitGroup. By behaviour from Go's waitgroup_test.go: TestWaitGroup, TestWaitGroupMisuse,
//! TestWaitGroupRace.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::sync::WaitGroup;

use super::{scope, spawn, test};
use crate::common::panic_message;

#[test]
fn two_groups_meet_each_other_and_are_used_again() {
    const N: usize = 16;
    let (first, second) = (WaitGroup::new(), WaitGroup::new());
    for _ in 0..8 {
        first.add(N);
        second.add(N);
        let exited = AtomicUsize::new(0);
        scope(|s| {
            for _ in 0..N {
                s.spawn(|| {
                    first.done();
                    second.wait();
                    exited.fetch_add(1, Ordering::Relaxed);
                });
            }
            first.wait();
            for _ in 0..N {
                assert_eq!(exited.load(Ordering::Relaxed), 0, "released too soon");
                second.done();
            }
        });
        assert_eq!(exited.into_inner(), N);
    }
}

#[test]
fn a_waiter_sees_what_was_done_before() {
    for _ in 0..500 {
        let group = WaitGroup::new();
        let sum = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 {
            group.add(1);
            let (group, sum) = (group.clone(), sum.clone());
            spawn(move || {
                sum.fetch_add(1, Ordering::Relaxed);
                group.done();
            });
        }
        group.wait();
        assert_eq!(sum.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn more_done_than_added_is_reported_and_harms_nothing() {
    let group = WaitGroup::new();
    group.add(1);
    group.done();
    assert_eq!(panic_message(|| group.done()), "negative WaitGroup counter");
    group.wait();
    group.add(1);
    assert!(!group.wait_for(Duration::ZERO));
    group.done();
    group.wait();
}

#[test]
fn a_count_beyond_all_bounds_is_reported() {
    let group = WaitGroup::new();
    assert!(panic_message(|| group.add(usize::MAX)).contains("overflow"));
    group.add(0);
    group.wait();
}

#[test]
fn waits_with_a_timeout_end_not_before_their_time() {
    let group = WaitGroup::new();
    assert!(group.wait_for(Duration::ZERO));
    group.add(1);
    let start = Instant::now();
    assert!(!group.wait_for(Duration::from_millis(10)));
    assert!(start.elapsed() >= Duration::from_millis(10));
    assert!(!group.wait_until(start));
    scope(|s| {
        let for_ever = s.spawn(|| group.wait_for(Duration::MAX));
        group.done();
        assert!(for_ever.join().unwrap());
    });
    assert_eq!(format!("{group:?}"), "WaitGroup { count: 0 }");
}
