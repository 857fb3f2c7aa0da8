//! Goroutines that sleep.

#[path = "../common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Procs, join_all, spin_until, until};
use gort::runtime::stats;
use gort::time::{sleep, sleep_until};

#[test]
fn all_sleepers_wake_up_and_none_is_early() {
    let _procs = Procs::set(2);
    gort::run(|| {
        let sleepers: Vec<_> = (0..2_000u64)
            .map(|n| {
                gort::spawn(move || {
                    let wanted = Duration::from_millis(n % 20) + Duration::from_micros(n);
                    let before = Instant::now();
                    sleep(wanted);
                    assert!(before.elapsed() >= wanted);
                })
            })
            .collect();
        join_all(sleepers);
    });
}

/// Puts goroutines to sleep whose deadlines are 10 µs apart, and keeps the only P until all deadlines have
/// passed. Returns the order in which the goroutines ran again: each is known by the place of its deadline.
fn wake_together(count: usize) -> Vec<usize> {
    let (asleep, order) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let start = Instant::now() + Duration::from_millis(1);
    let deadline = move |place: usize| start + Duration::from_micros(10) * place as u32;
    // Neither in the order of the deadlines nor in the reverse order: 7 and `count` have no common divisor.
    let places = (0..count).map(|n| n * 7 % count);
    let sleepers: Vec<_> = places
        .map(|place| {
            let (asleep, order) = (asleep.clone(), order.clone());
            gort::spawn(move || {
                asleep.fetch_add(1, Ordering::Relaxed);
                sleep_until(deadline(place));
                order.lock().unwrap().push(place);
            })
        })
        .collect();
    until("all sleep", || asleep.load(Ordering::Relaxed) == count);
    spin_until("all are due", || Instant::now() > deadline(count));
    join_all(sleepers);
    order.lock().unwrap().clone()
}

#[test]
fn sleepers_that_are_due_together_wake_in_the_order_of_their_deadlines() {
    const SLEEPERS: usize = 50;
    let _procs = Procs::set(1);
    // On a busy machine some deadlines pass before all goroutines sleep, or a preemption divides the sleepers
    // among several queues. A wrong order of the timers would show in every round.
    until("a round shows the order", || gort::run(|| wake_together(SLEEPERS)).into_iter().eq(0..SLEEPERS));
}

#[test]
fn a_deadline_in_the_past_does_not_park_the_goroutine() {
    const CALLS: u64 = 1_000;
    if !common::alone("a_deadline_in_the_past_does_not_park_the_goroutine") {
        return;
    }
    let past = Instant::now();
    let before = stats();
    gort::run(|| (0..CALLS).for_each(|_| sleep_until(past)));
    let after = stats();
    let parks = after.parks - before.parks;
    assert!(parks < CALLS / 10, "{CALLS} calls parked the goroutine {parks} times");
    assert!(after.yields - before.yields >= CALLS, "each call lets other goroutines run");
}
