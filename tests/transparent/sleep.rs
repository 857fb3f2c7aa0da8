//! Sleeping and yielding.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::common::{alone, amount, join_all, threads, until};

#[test]
fn goroutines_in_thread_sleep_hold_no_threads() {
    if !alone("sleep::goroutines_in_thread_sleep_hold_no_threads") {
        return;
    }
    let _watchdog = super::enable();
    let before = threads().len();
    gort::run(move || {
        static ENOUGH: AtomicBool = AtomicBool::new(false);
        let sleepers = (0..amount(1_000, 100_000)).map(|_| {
            gort::spawn(|| {
                while !ENOUGH.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(200));
                }
            })
        });
        let sleepers: Vec<_> = sleepers.collect();
        until("nearly all sleep", || gort::runtime::stats().goroutines.waiting >= sleepers.len() / 2);
        super::until_few_threads(before);
        ENOUGH.store(true, Ordering::Relaxed);
        join_all(sleepers);
    });
}

/// A way to sleep: gets the time, and a function that says when that is over by a clock.
type Sleep = fn(&libc::timespec, &dyn Fn(i32) -> libc::timespec) -> i32;

#[test]
fn all_kinds_of_sleep_last_long_enough() {
    let _watchdog = super::enable();
    let time = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let at = |clock| {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        unsafe { libc::clock_gettime(clock, &mut now) };
        let nanos = now.tv_nsec + 20_000_000;
        libc::timespec { tv_sec: now.tv_sec + nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 }
    };
    let kinds: [(&str, Sleep); 5] = [
        ("nanosleep", |time, _| unsafe { libc::nanosleep(time, std::ptr::null_mut()) }),
        ("usleep", |_, _| unsafe { libc::usleep(20_000) }),
        ("relative", |time, _| unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, time, std::ptr::null_mut())
        }),
        ("absolute", |_, at| unsafe {
            let at = at(libc::CLOCK_MONOTONIC);
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &at, std::ptr::null_mut())
        }),
        ("absolute, of the other clock", |_, at| unsafe {
            let at = at(libc::CLOCK_REALTIME);
            libc::clock_nanosleep(libc::CLOCK_REALTIME, libc::TIMER_ABSTIME, &at, std::ptr::null_mut())
        }),
    ];
    gort::run(|| {
        let none = std::ptr::null_mut();
        for (name, kind) in kinds {
            let begin = Instant::now();
            assert_eq!(kind(&time, &at), 0, "{name}");
            assert!(begin.elapsed() >= Duration::from_millis(19), "{name}: {:?}", begin.elapsed());
        }
        // What is no time is refused, as by the kernel.
        let wrong = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
        assert_eq!(unsafe { libc::nanosleep(&wrong, none) }, -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
        let past = libc::timespec { tv_sec: 1, tv_nsec: 0 };
        let sleeps =
            unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &past, none) };
        assert_eq!(sleeps, 0);
    });
}

#[test]
fn sleep_in_a_bubble_takes_no_time() {
    let _watchdog = super::enable();
    let begin = Instant::now();
    gort::testing::bubble(|| {
        let before = gort::time::now();
        std::thread::sleep(Duration::from_secs(3600));
        assert_eq!(gort::time::now() - before, Duration::from_secs(3600));
    });
    assert!(begin.elapsed() < Duration::from_secs(600));
}

#[test]
fn sched_yield_lets_other_goroutines_run() {
    let _watchdog = super::enable();
    let _procs = super::common::Procs::set(1);
    gort::run(|| {
        let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let other = std::sync::Arc::clone(&flag);
        let setter = gort::spawn(move || other.store(true, std::sync::atomic::Ordering::Relaxed));
        while !flag.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::yield_now();
        }
        setter.join().unwrap();
    });
}
