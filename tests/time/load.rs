//! Timers under load: the row about timers in tests/README.md. These tests do not wait for "long enough": a
//! timer that is starved or lost makes the test hang, and the watchdog ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::chan::{bounded, unbounded};
use gort::time::{Timer, after_func, sleep};

use crate::common::{Procs, amount, child, is_child, run_ok};

const MS: Duration = Duration::from_millis(1);

/// Runs `f` while `copies` goroutines run `load`, until the flag is raised.
fn under_load(procs: usize, copies: usize, load: fn(&AtomicBool), f: impl FnOnce() + Send) {
    let _procs = Procs::set(procs);
    gort::run(|| {
        let stop = AtomicBool::new(false);
        gort::scope(|s| {
            for _ in 0..copies {
                s.spawn(|| load(&stop));
            }
            f();
            stop.store(true, Ordering::Relaxed);
        });
    });
}

fn hog(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn several_sleeps_and_timers() {
    for n in 0..10 {
        sleep(MS / 2);
        Timer::new(MS / 4).c().recv().unwrap();
        let (s, r) = bounded(1);
        after_func(MS / 4, move || s.send(n).unwrap());
        assert_eq!(r.recv(), Ok(n));
    }
}

#[test]
fn timers_fire_despite_hogs() {
    under_load(1, 2, hog, several_sleeps_and_timers);
    under_load(2, 4, hog, several_sleeps_and_timers);
}

/// go#38860: the first timer of a process. With one P there is one M, and a hog runs on it.
#[test]
fn the_first_timer_of_a_process_fires_despite_a_hog() {
    if is_child("hog") {
        let stop = Arc::new(AtomicBool::new(false));
        gort::run(move || {
            let seen = stop.clone();
            let hog = gort::spawn(move || hog(&seen));
            sleep(MS);
            stop.store(true, Ordering::Relaxed);
            hog.join().unwrap();
        });
        return;
    }
    let mut command = child("load::the_first_timer_of_a_process_fires_despite_a_hog", "hog");
    command.env("GOMAXPROCS", "1");
    run_ok(command);
}

#[test]
fn timers_fire_despite_yield_loops() {
    let load = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            gort::yield_now();
        }
    };
    under_load(1, 3, load, several_sleeps_and_timers);
    under_load(2, 3, load, several_sleeps_and_timers);
}

#[test]
fn timers_fire_despite_channel_traffic() {
    let load = |stop: &AtomicBool| {
        let (there, here) = (bounded(0), bounded(0));
        let echo = gort::spawn({
            let (r, s) = (there.1, here.0);
            move || r.iter().for_each(|n: u32| s.send(n).unwrap())
        });
        while !stop.load(Ordering::Relaxed) {
            there.0.send(1).unwrap();
            here.1.recv().unwrap();
        }
        drop(there.0);
        echo.join().unwrap();
    };
    under_load(1, 1, load, several_sleeps_and_timers);
    under_load(2, 2, load, several_sleeps_and_timers);
}

#[test]
fn timers_fire_despite_spawning() {
    let load = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            gort::spawn(|| {}).join().unwrap();
        }
    };
    under_load(1, 2, load, several_sleeps_and_timers);
}

/// The only P is in a marked or an unmarked blocking call, and nothing else happens.
#[test]
fn timers_fire_despite_blocking_calls() {
    for marked in [true, false] {
        let _procs = Procs::set(1);
        gort::run(|| {
            let (s, woken) = std::sync::mpsc::channel();
            // This goroutine waits for its timer before the call begins.
            let sleeper = gort::spawn(move || {
                sleep(30 * MS);
                s.send(Instant::now()).unwrap();
            });
            gort::yield_now();
            // Blocks the thread until the sleeper has woken up, which never happens if the P stays here.
            let wait = || woken.recv_timeout(Duration::from_secs(60)).expect("the sleeper never woke up");
            if marked {
                gort::blocking(wait)
            } else {
                wait()
            };
            sleeper.join().unwrap();
        });
    }
}

/// go#44868, go#47329: a timer moves to an earlier time while the poller waits for a later one.
#[test]
fn an_earlier_timer_interrupts_the_poller() {
    let _procs = Procs::set(2);
    // The poller's own deadline is far away.
    let far = gort::spawn(|| sleep(Duration::from_secs(100_000)));
    for _ in 0..amount(200, 2_000) {
        let (s, r) = bounded(1);
        let timer = after_func(Duration::from_secs(50_000), move || s.send(()).unwrap());
        // A thread moves it while all goroutines wait.
        assert!(timer.reset(Duration::from_micros(50)));
        r.recv().unwrap();
    }
    drop(far);
}

/// go#35532, go#35367: deadlines come and go in several goroutines while GOMAXPROCS changes, which moves
/// timers from heap to heap. No timer is lost, and none fires early.
#[test]
fn timers_survive_changes_of_gomaxprocs() {
    let _procs = Procs::set(4);
    let flips = amount(300, 10_000);
    let stop = Arc::new(AtomicBool::new(false));
    let (early, slept) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut handles = Vec::new();
    for n in 0..64u64 {
        let (stop, early, slept) = (stop.clone(), early.clone(), slept.clone());
        handles.push(gort::spawn(move || {
            let timer = Timer::new(Duration::MAX);
            let (_s, r) = unbounded::<()>();
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                let pause = Duration::from_micros((n * 31 + round * 17) % 700);
                let start = Instant::now();
                match round % 4 {
                    0 => sleep(pause),
                    1 => drop(r.recv_timeout(pause)),
                    2 => {
                        timer.reset(pause);
                        timer.c().recv().unwrap();
                    }
                    _ => {
                        let (s, r) = bounded(1);
                        after_func(pause, move || s.send(()).unwrap());
                        r.recv().unwrap();
                    }
                }
                early.fetch_add(usize::from(start.elapsed() < pause), Ordering::Relaxed);
                slept.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    gort::run(|| {
        for n in 0..flips {
            gort::runtime::set_max_procs([1, 8, 2, 3][n % 4]);
            if n % 8 == 0 {
                sleep(Duration::from_micros(300));
            }
        }
    });
    stop.store(true, Ordering::Relaxed);
    handles.into_iter().for_each(|h| h.join().unwrap());
    assert_eq!(early.load(Ordering::Relaxed), 0);
    assert!(slept.load(Ordering::Relaxed) > 64);
}
