//! By behaviour from Go: TestSleep, TestSleepZeroDeadlock, TestOverflowSleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::chan::{RecvTimeoutError, bounded};
use gort::time::{sleep, sleep_until};

use crate::common::{Procs, amount, until};

#[gort::test]
fn no_sleep_is_shorter_than_asked() {
    for micros in [0, 1, 10, 100, 1_000, 20_000] {
        let (start, wanted) = (Instant::now(), Duration::from_micros(micros));
        sleep(wanted);
        assert!(start.elapsed() >= wanted);
        let deadline = Instant::now() + wanted;
        sleep_until(deadline);
        assert!(Instant::now() >= deadline);
    }
}

#[test]
fn a_thread_sleeps_too() {
    let start = Instant::now();
    sleep(Duration::from_millis(2));
    sleep_until(start + Duration::from_millis(3));
    assert!(start.elapsed() >= Duration::from_millis(3));
    sleep(Duration::ZERO);
    sleep_until(start);
}

/// A sleep of zero lets other goroutines run and does not wait. It does not disturb real sleeps.
#[test]
fn sleeping_for_zero_lets_others_run() {
    let _procs = Procs::set(1);
    gort::run(|| {
        let done = Arc::new(AtomicBool::new(false));
        let (set, slept) = (done.clone(), gort::spawn(|| sleep(Duration::from_millis(1))));
        let other = gort::spawn(move || set.store(true, Ordering::Relaxed));
        until("the other goroutine has run", || {
            sleep(Duration::ZERO);
            done.load(Ordering::Relaxed)
        });
        other.join().unwrap();
        slept.join().unwrap();
    });
}

#[gort::test]
fn a_duration_beyond_the_clock_means_for_ever() {
    let forever = [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_nanos(u64::MAX)];
    let (s, woken) = bounded::<()>(0);
    for duration in forever {
        let s = s.clone();
        gort::spawn(move || {
            sleep(duration);
            let _ = s.send(());
        });
    }
    // Other waits go on, and none of these sleeps ends.
    assert_eq!(woken.recv_timeout(Duration::from_millis(5)), Err(RecvTimeoutError::Timeout));
}

/// A full run has 100,000 sleepers.
#[test]
fn of_many_sleepers_all_wake_up_and_none_is_early() {
    let _procs = Procs::set(4);
    let count = amount(10_000, 100_000);
    let (awake, early) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    gort::run(|| {
        for n in 0..count {
            let (awake, early) = (awake.clone(), early.clone());
            gort::spawn(move || {
                let wanted = Duration::from_micros(1_000 + (n as u64 * 7_919) % 99_000);
                let start = Instant::now();
                sleep(wanted);
                early.fetch_add(usize::from(start.elapsed() < wanted), Ordering::Relaxed);
                awake.fetch_add(1, Ordering::Relaxed);
            });
        }
        until("all are awake", || {
            sleep(Duration::from_millis(1));
            awake.load(Ordering::Relaxed) == count
        });
    });
    assert_eq!(early.load(Ordering::Relaxed), 0);
}
