//! Timers that call functions. By behaviour from Go: TestAfterFunc, TestAfterFuncStarvation,
//! TestTickerStress, TestTimerStopStress, TestStopResult and TestResetResult for functions,
//! TestOverflowPeriodRuntimeTimer; and `timeout`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::chan::{bounded, unbounded};
use gort::sync::{Mutex, WaitGroup};
use gort::time::{Elapsed, Timer, after_func, sleep, timeout};

use crate::common::{Procs, amount, until};

const MS: Duration = Duration::from_millis(1);

#[gort::test]
fn a_function_starts_the_next_one() {
    fn step(left: usize, done: gort::chan::Sender<u64>) {
        after_func(Duration::from_micros(10), move || match left {
            0 => done.send(gort::current().id()).unwrap(),
            _ => step(left - 1, done.clone()),
        });
    }
    let (s, r) = bounded(1);
    step(100, s);
    assert_ne!(r.recv().unwrap(), gort::current().id());
}

/// A plain thread starts a timer while the process has nothing to do and no M waits for timers.
#[test]
fn threads_start_and_stop_functions() {
    for n in 0..200 {
        let (s, r) = bounded(1);
        let start = Instant::now();
        let wanted = Duration::from_micros(n * 20);
        let _timer = after_func(wanted, move || s.send(Instant::now()).unwrap());
        assert!(r.recv().unwrap() >= start + wanted);
        if n % 20 == 0 {
            std::thread::sleep(2 * MS); // All Ms have gone to sleep.
        }
        let late = after_func(Duration::from_secs(3600), || unreachable!());
        assert!(late.stop() && !late.stop());
        let never = after_func(Duration::MAX, || unreachable!());
        assert!(never.stop() && !never.stop() && !never.reset(Duration::MAX) && never.stop());
    }
}

#[gort::test]
fn a_function_runs_or_a_stop_says_that_it_will_not() {
    const ROUNDS: usize = 2_000;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let timer = after_func(Duration::ZERO, move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let mut prevented = 0;
    for n in 0..ROUNDS {
        let pause = Duration::from_nanos((n as u64 * 37) % 3_000);
        let waiting = if n % 3 == 0 {
            let stopped = timer.stop();
            assert!(!timer.reset(pause));
            stopped
        } else {
            timer.reset(pause)
        };
        prevented += usize::from(waiting);
        if n % 5 == 0 {
            gort::yield_now();
        }
    }
    prevented += usize::from(timer.stop());
    until("all have been called", || calls.load(Ordering::Relaxed) + prevented == ROUNDS + 1);
}

#[test]
fn concurrent_stops_and_resets_of_one_timer_agree() {
    let _procs = Procs::set(4);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let timer = after_func(Duration::MAX, move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let (settings, prevented) = (AtomicUsize::new(1), AtomicUsize::new(0));
    let body = |seed: u64| {
        for n in 0..1_000u64 {
            let waiting = if (n ^ seed).is_multiple_of(3) {
                timer.stop()
            } else {
                settings.fetch_add(1, Ordering::Relaxed);
                timer.reset(Duration::from_nanos((n * seed * 97) % 20_000))
            };
            prevented.fetch_add(usize::from(waiting), Ordering::Relaxed);
        }
    };
    let body = &body;
    std::thread::scope(|threads| {
        threads.spawn(move || body(5));
        gort::scope(|s| {
            for seed in 1..4 {
                s.spawn(move || body(seed));
            }
        });
    });
    prevented.fetch_add(usize::from(timer.stop()), Ordering::Relaxed);
    let (settings, prevented) = (settings.into_inner(), prevented.into_inner());
    until("all have been called", || calls.load(Ordering::Relaxed) + prevented >= settings);
    assert_eq!(calls.load(Ordering::Relaxed) + prevented, settings);
}

#[gort::test]
fn a_function_that_blocks_or_panics_keeps_no_other_from_running() {
    let (hold, held) = bounded::<()>(0);
    after_func(Duration::ZERO, move || assert!(held.recv().is_err()));
    after_func(Duration::ZERO, || panic!("in a timer's function, on purpose"));
    let (s, r) = bounded(1);
    after_func(MS, move || s.send(()).unwrap());
    r.recv().unwrap();
    drop(hold);
}

/// What the function owns is dropped once, even if the function never runs. The drop may block.
#[gort::test]
fn what_a_function_owns_is_dropped() {
    struct Told(gort::chan::Sender<()>);
    impl Drop for Told {
        fn drop(&mut self) {
            sleep(MS);
            self.0.send(()).unwrap();
        }
    }
    let (s, r) = unbounded();
    let called = Told(s.clone());
    drop(after_func(Duration::ZERO, move || assert!(!called.0.is_full())));
    r.recv().unwrap();
    let stopped = Told(s);
    let timer = after_func(Duration::MAX, move || unreachable!("{}", stopped.0.len()));
    assert!(timer.stop());
    drop(timer);
    r.recv().unwrap();
    assert!(r.recv().is_err());
}

/// Two goroutines that only yield do not keep the functions of timers from running.
#[test]
fn functions_run_despite_yielding_goroutines() {
    let _procs = Procs::set(1);
    gort::run(|| {
        let stop = Arc::new(AtomicUsize::new(0));
        let yielding: Vec<_> = (0..2)
            .map(|_| {
                let stop = stop.clone();
                gort::spawn(move || {
                    while stop.load(Ordering::Relaxed) == 0 {
                        gort::yield_now();
                    }
                })
            })
            .collect();
        for _ in 0..20 {
            let group = WaitGroup::new();
            group.add(1);
            let told = group.clone();
            after_func(Duration::from_micros(100), move || told.done());
            group.wait();
        }
        stop.store(1, Ordering::Relaxed);
        yielding.into_iter().for_each(|y| y.join().unwrap());
    });
}

#[gort::test]
fn timers_stopped_by_other_goroutines_while_they_fire() {
    let count = amount(500, 20_000);
    let fired = Arc::new(AtomicUsize::new(0));
    let stopped = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..4)
        .map(|_| {
            let (fired, stopped) = (fired.clone(), stopped.clone());
            gort::spawn(move || {
                for n in 0..count {
                    let fired = fired.clone();
                    let timer = after_func(Duration::from_micros(n as u64 % 50), move || {
                        fired.fetch_add(1, Ordering::Relaxed);
                    });
                    let stopped = stopped.clone();
                    gort::spawn(move || stopped.fetch_add(usize::from(timer.stop()), Ordering::Relaxed));
                }
            })
        })
        .collect();
    handles.into_iter().for_each(|h| h.join().unwrap());
    until("each has fired or was stopped", || {
        sleep(MS);
        fired.load(Ordering::Relaxed) + stopped.load(Ordering::Relaxed) == 4 * count
    });
}

#[gort::test]
fn a_timeout_returns_what_came_in_time() {
    assert_eq!(timeout(Duration::from_secs(3600), || 1), Ok(1));
    assert_eq!(timeout(Duration::MAX, || 2), Ok(2));
    assert_eq!(timeout(MS, || sleep(Duration::from_secs(3600))), Err(Elapsed));
    let payload = std::panic::catch_unwind(|| timeout(Duration::MAX, || panic!("inside"))).unwrap_err();
    assert_eq!(*payload.downcast::<&str>().unwrap(), "inside");
}

#[gort::test]
fn waits_inside_a_timeout_come_to_an_end() {
    let mutex = Arc::new(Mutex::new(()));
    let held = mutex.lock();
    let (s, r) = bounded(1);
    let inside = mutex.clone();
    let result = timeout(2 * MS, move || s.send(inside.try_lock_for(Duration::MAX).is_none()).unwrap());
    assert!(r.recv().unwrap(), "it gave up");
    drop(held);
    let _ = result;
    let timer = Timer::new(Duration::ZERO);
    timer.c().recv().unwrap();
}
