//! `runtime::stats` agrees with what goroutines did.

#[path = "../common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Procs, join_all, spin_until, until};
use gort::runtime::{Histogram, Stats, stats};

fn changes(f: impl FnOnce() + Send) -> (Stats, Stats) {
    let before = stats();
    gort::run(f);
    (before, stats())
}

#[test]
fn goroutines_parks_and_yields_are_counted() {
    let _procs = Procs::set(2);
    let (before, after) = changes(|| {
        for _ in 0..1000 {
            gort::spawn(gort::yield_now).join().unwrap();
        }
    });
    assert_eq!(after.created - before.created, 1001);
    // `join` returns shortly before the runtime counts the end.
    spin_until("all have ended", || stats().ended - before.ended >= 1001);
    assert!(after.yields - before.yields >= 1000);
    assert!(after.parks - before.parks >= 1);
    assert_eq!(after.local_queues.len(), 2);
}

#[test]
fn states_are_told_apart() {
    let _procs = Procs::set(2);
    gort::run(|| {
        let (sender, receiver) = gort::chan::bounded::<()>(0);
        let waiting: Vec<_> = (0..10)
            .map(|_| {
                let receiver = receiver.clone();
                gort::spawn(move || receiver.recv().unwrap_err())
            })
            .collect();
        let released = Arc::new(AtomicBool::new(false));
        let stop = released.clone();
        let blocked = gort::spawn(move || {
            gort::blocking(|| spin_until("released", || stop.load(Ordering::Relaxed)));
        });
        until("all wait", || {
            let now = stats().goroutines;
            now.waiting >= 10 && now.syscall >= 1 && now.running >= 1
        });
        let now = stats();
        assert!(now.stacks.in_use >= 12, "{now:?}");
        assert!(now.threads.alive >= 2);
        released.store(true, Ordering::Relaxed);
        blocked.join().unwrap();
        drop(sender);
        for one in waiting {
            one.join().unwrap();
        }
    });
}

#[test]
fn runnable_goroutines_are_in_the_queues() {
    let _procs = Procs::set(1);
    gort::run(|| {
        const YIELDERS: usize = 20;
        let stop = Arc::new(AtomicBool::new(false));
        let yielders: Vec<_> = (0..YIELDERS)
            .map(|_| {
                let stop = stop.clone();
                gort::spawn(move || until("it may end", || stop.load(Ordering::Relaxed)))
            })
            .collect();
        // With one P, all others are runnable while this goroutine runs. A preemption between the counts
        // makes them differ, so try again.
        until("exactly the yielding goroutines are runnable, and all of them are queued", || {
            let now = stats();
            let queued = now.local_queues.iter().sum::<usize>() + now.global_queue + now.hog_queue;
            (now.goroutines.runnable, queued) == (YIELDERS, YIELDERS)
        });
        stop.store(true, Ordering::Relaxed);
        join_all(yielders);
    });
}

#[test]
fn a_hog_is_preempted_by_signal_and_a_busy_caller_cooperatively() {
    let _procs = Procs::set(1);
    let before = stats();
    gort::run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let hog = gort::spawn(move || while !seen.load(Ordering::Relaxed) {});
        until("the hog was stopped", || stats().preempted_by_signal > before.preempted_by_signal);
        let seen = stop.clone();
        let polite = gort::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                gort::checkpoint();
            }
        });
        until("the polite one let go", || stats().preempted > before.preempted);
        stop.store(true, Ordering::Relaxed);
        hog.join().unwrap();
        polite.join().unwrap();
    });
}

#[test]
fn slices_and_latencies_are_sampled() {
    let _procs = Procs::set(1);
    let at_least = |histogram: &Histogram, micros| -> u64 {
        let long = histogram.buckets().filter(|(lower, _)| *lower >= Duration::from_micros(micros));
        long.map(|(_, count)| count).sum()
    };
    let before = stats();
    let stop = Arc::new(AtomicBool::new(false));
    let all: Vec<_> = (0..20)
        .map(|_| {
            let stop = stop.clone();
            gort::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let start = std::time::Instant::now();
                    while start.elapsed() < Duration::from_micros(20) {}
                    gort::yield_now();
                }
            })
        })
        .collect();
    // Each goroutine runs for 20 µs at a time and waits for 19 others.
    until("slices and latencies were sampled", || {
        let now = stats();
        at_least(&now.slices, 16) - at_least(&before.slices, 16) >= 8
            && at_least(&now.latencies, 320) - at_least(&before.latencies, 320) >= 8
    });
    stop.store(true, Ordering::Relaxed);
    all.into_iter().for_each(|one| one.join().unwrap());
    let after = stats();
    assert!(after.slices.count() > before.slices.count(), "{after:?}");
    assert!(after.latencies.quantile(1.0) >= Some(Duration::from_micros(320)), "{after:?}");
}

#[test]
fn stacks_go_from_use_to_the_cache() {
    let _procs = Procs::set(2);
    gort::run(|| {
        let (sender, receiver) = gort::chan::bounded::<()>(0);
        let all: Vec<_> = (0..500)
            .map(|_| {
                let receiver = receiver.clone();
                gort::spawn(move || receiver.recv().unwrap_err())
            })
            .collect();
        let during = stats().stacks;
        assert!(during.in_use >= 500, "{during:?}");
        drop(sender);
        all.into_iter().for_each(|one| _ = one.join().unwrap());
        until("the stacks are cached", || stats().stacks.cached >= 500);
        assert!(stats().stacks.in_use < during.in_use);
    });
}
