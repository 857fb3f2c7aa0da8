//! GOMAXPROCS: from the environment, and changed while everything runs.

#[path = "../common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Procs, amount, cpu_time, spin_until, until};
use gort::runtime::{max_procs, set_max_procs};

/// Starts a child with these variables. Returns its number of Ps and its warnings.
fn procs_of_child(variables: &[(&str, &str)]) -> (usize, Vec<String>) {
    const NAME: &str = "the_environment_sets_the_number_and_bad_values_give_a_warning";
    let mut child = common::child(NAME, "procs");
    child.envs(variables.iter().copied());
    let printed = common::run_ok(child);
    let complaints = printed.stderr.lines().filter(|line| line.contains("gort")).map(str::to_owned);
    (printed.value("procs").parse().unwrap(), complaints.collect())
}

#[test]
fn the_environment_sets_the_number_and_bad_values_give_a_warning() {
    if common::is_child("procs") {
        let sum: usize = gort::run(|| {
            let handles: Vec<_> = (0..100).map(|n| gort::spawn(move || n)).collect();
            handles.into_iter().map(|handle| handle.join().unwrap()).sum()
        });
        assert_eq!(sum, 4950);
        println!("procs={}", max_procs());
        return;
    }
    let none: [&str; 0] = [];
    let (default, complaints) = procs_of_child(&[]);
    assert_eq!(complaints, none);
    assert!((1..=std::thread::available_parallelism().unwrap().get()).contains(&default));
    for (value, expected) in [("1", 1), ("3", 3), (" 7 ", 7), ("1024", 1024), ("", default)] {
        assert_eq!(procs_of_child(&[("GOMAXPROCS", value)]), (expected, vec![]), "{value:?}");
    }
    for value in ["0", "abc", "-1", "2.5", "1e3"] {
        let complaint =
            format!("gort: GOMAXPROCS=\"{value}\" is ignored: it must be a whole number from 1 to 1024");
        assert_eq!(procs_of_child(&[("GOMAXPROCS", value)]), (default, vec![complaint]));
    }
    let complaint = "gort: GOMAXPROCS=5000 is more than gort can use; it runs with 1024".to_owned();
    assert_eq!(procs_of_child(&[("GOMAXPROCS", "5000")]), (1024, vec![complaint]));
    assert_eq!(procs_of_child(&[("GOMAXPROCS", "3"), ("GORT_MAXPROCS", "5")]), (5, vec![]));
}

#[test]
fn setting_returns_the_former_value_and_clamps() {
    let _procs = Procs::set(3);
    assert_eq!(max_procs(), 3);
    assert_eq!(set_max_procs(5), 3);
    assert_eq!(set_max_procs(5), 5);
    assert_eq!(set_max_procs(0), 5);
    assert_eq!(max_procs(), 5, "as in Go, 0 only asks");
    assert_eq!(set_max_procs(usize::MAX), 5);
    assert_eq!(max_procs(), 1024);
    assert_eq!(gort::run(|| set_max_procs(2)), 1024);
    assert_eq!(gort::run(max_procs), 2);
}

/// Goroutines that yield, spawn, join and open scopes until they are told to stop. Each counts its rounds.
struct Load {
    stop: Arc<AtomicBool>,
    goroutines: Vec<(Arc<AtomicUsize>, gort::JoinHandle<()>)>,
}

impl Load {
    fn start(goroutines: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let start_one = |kind| {
            let (stop, rounds) = (stop.clone(), Arc::new(AtomicUsize::new(0)));
            let counted = rounds.clone();
            let handle = gort::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    Load::round(kind, counted.fetch_add(1, Ordering::Relaxed));
                }
            });
            (rounds, handle)
        };
        Load { goroutines: (0..goroutines).map(start_one).collect(), stop }
    }

    fn round(kind: usize, n: usize) {
        match kind % 4 {
            0 => gort::yield_now(),
            1 => assert_eq!(gort::spawn(move || n).join().unwrap(), n),
            2 => {
                let some: Vec<_> = (0..20).map(|n| gort::spawn(move || n)).collect();
                assert_eq!(some.into_iter().map(|h| h.join().unwrap()).sum::<usize>(), 190);
            }
            _ => gort::scope(|s| {
                s.spawn(gort::yield_now);
                s.spawn(|| std::hint::black_box((0..1_000).sum::<usize>()));
            }),
        }
    }

    /// Checks that each goroutine still makes progress, and ends all of them.
    fn stop(self) {
        let before: Vec<_> =
            self.goroutines.iter().map(|(rounds, _)| rounds.load(Ordering::Relaxed)).collect();
        for ((rounds, _), before) in self.goroutines.iter().zip(before) {
            until("each makes progress", || rounds.load(Ordering::Relaxed) > before + 1);
        }
        self.stop.store(true, Ordering::Relaxed);
        for (_, handle) in self.goroutines {
            handle.join().unwrap();
        }
    }
}

#[test]
fn flips_under_load_lose_nobody() {
    let _procs = Procs::set(8);
    let load = Load::start(16);
    for n in 0..amount(1_000, 10_000) {
        let before = if n % 2 == 0 { 8 } else { 1 };
        assert_eq!(set_max_procs(9 - before), before);
    }
    load.stop();
}

#[test]
fn flips_by_goroutines_under_load_lose_nobody() {
    let _procs = Procs::set(8);
    let load = Load::start(16);
    gort::run(|| {
        for n in 0..amount(1_000, 10_000) {
            let before = if n % 2 == 0 { 8 } else { 1 };
            assert_eq!(set_max_procs(9 - before), before);
        }
    });
    load.stop();
}

#[test]
fn changes_may_come_from_everywhere_at_once() {
    let _procs = Procs::set(4);
    let load = Load::start(8);
    let change = |n: usize| {
        for i in 0..amount(100, 3_000) {
            let now = set_max_procs(1 + (i * 7 + n) % 16);
            assert!((1..=16).contains(&now));
        }
    };
    std::thread::scope(|s| {
        for n in 0..3 {
            s.spawn(move || change(n));
            s.spawn(move || gort::run(|| change(n + 3)));
        }
    });
    load.stop();
    set_max_procs(4);
    assert_eq!(max_procs(), 4);
}

#[test]
fn the_most_ps_there_can_be_work() {
    let _procs = Procs::set(1024);
    let load = Load::start(64);
    let handles: Vec<_> = (0..amount(20_000, 500_000))
        .map(|n| {
            gort::spawn(move || {
                gort::yield_now();
                n
            })
        })
        .collect();
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.join().unwrap(), n);
    }
    load.stop();
    assert_eq!(set_max_procs(1), 1024);
    assert_eq!(gort::run(|| 1), 1);
}

/// Lets `n` goroutines wait for each other without a call of the runtime: that takes `n` Ps.
fn run_at_once(n: usize) {
    let here = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..n)
        .map(|_| {
            let here = here.clone();
            gort::spawn(move || {
                here.fetch_add(1, Ordering::AcqRel);
                spin_until("all run at once", || here.load(Ordering::Acquire) == n);
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap();
    }
}

#[test]
fn as_many_goroutines_as_ps_run_at_once() {
    let _procs = Procs::set(4);
    for _ in 0..amount(50, 2_000) {
        run_at_once(4);
        gort::run(|| run_at_once(3));
    }
}

#[test]
fn ps_that_were_added_are_used() {
    let _procs = Procs::set(1);
    for _ in 0..amount(20, 1_000) {
        set_max_procs(1);
        let here = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..4)
            .map(|_| {
                let here = here.clone();
                gort::spawn(move || {
                    here.fetch_add(1, Ordering::AcqRel);
                    spin_until("all run at once", || here.load(Ordering::Acquire) == 4);
                })
            })
            .collect();
        until("the first runs", || here.load(Ordering::Acquire) > 0);
        set_max_procs(4);
        for handle in handles {
            handle.join().unwrap();
        }
    }
}

#[test]
fn after_a_shrink_goroutines_run_one_at_a_time() {
    if !common::alone("after_a_shrink_goroutines_run_one_at_a_time") {
        return;
    }
    set_max_procs(8);
    let stop = AtomicBool::new(false);
    let mut shares = Vec::new();
    gort::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box((0..10_000).sum::<usize>());
                    gort::yield_now();
                }
            });
        }
        for _ in 0..amount(5, 100) {
            set_max_procs(8);
            set_max_procs(1);
            let (start, cpu_before) = (Instant::now(), cpu_time());
            std::thread::sleep(Duration::from_millis(50));
            let cpu = cpu_time() - cpu_before;
            shares.push(cpu.as_secs_f64() / start.elapsed().as_secs_f64());
        }
        stop.store(true, Ordering::Relaxed);
    });
    // A bit more than one CPU, for the runtime's own threads.
    assert!(shares.iter().all(|share| *share < 1.3), "CPUs used with one P: {shares:?}");
}

#[test]
fn endless_loops_do_not_keep_ps_that_are_to_go() {
    if !common::alone("endless_loops_do_not_keep_ps_that_are_to_go") {
        return;
    }
    let stop = AtomicBool::new(false);
    gort::scope(|s| {
        let started: Vec<_> = (0..6)
            .map(|_| {
                let started = Arc::new(AtomicBool::new(false));
                let (here, stop) = (started.clone(), &stop);
                s.spawn(move || {
                    here.store(true, Ordering::Relaxed);
                    while !stop.load(Ordering::Relaxed) {}
                });
                started
            })
            .collect();
        until("all have run", || started.iter().all(|started| started.load(Ordering::Relaxed)));
        for round in 0..amount(5, 100) {
            for procs in [6, 1 + round % 2] {
                set_max_procs(procs);
                assert_eq!(max_procs(), procs);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
