//! No goroutine starves: not behind goroutines that keep waking each other, not behind yield loops, not
//! behind a stream of new goroutines.

#[path = "../common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{Procs, amount, until};

/// A flag that tells goroutines to stop. The drop raises it.
struct Endless(Arc<AtomicBool>);

impl Endless {
    fn new() -> Endless {
        Endless(Arc::new(AtomicBool::new(false)))
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Spawns a successor, which spawns a successor, each into `runnext`, until `stop`.
fn chain(stop: Arc<AtomicBool>, links: Arc<AtomicUsize>) {
    if !stop.load(Ordering::Relaxed) {
        links.fetch_add(1, Ordering::Relaxed);
        gort::spawn(move || chain(stop, links));
    }
}

#[test]
fn a_chain_of_successors_does_not_starve_the_queue() {
    for procs in [1, 2] {
        let _procs = Procs::set(procs);
        let endless = Endless::new();
        let links = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 * procs {
            gort::spawn({
                let (stop, links) = (endless.stop_flag(), links.clone());
                move || chain(stop, links)
            });
        }
        until("the chains run", || links.load(Ordering::Relaxed) > 100);
        for n in 0..amount(200, 20_000) {
            // A thread spawns into the global queue, a goroutine into the ring of its P.
            assert_eq!(gort::spawn(move || n).join().unwrap(), n);
            assert_eq!(gort::run(|| gort::spawn(move || n).join().unwrap()), n);
        }
    }
}

#[test]
fn two_that_wake_each_other_do_not_starve_the_queue() {
    for procs in [1, 2] {
        let _procs = Procs::set(procs);
        let endless = Endless::new();
        let rounds = Arc::new(AtomicUsize::new(0));
        for _ in 0..procs {
            let (stop, rounds) = (endless.stop_flag(), rounds.clone());
            gort::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // Parks until the goroutine in runnext has run, which readies this one into runnext.
                    gort::spawn(|| ()).join().unwrap();
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until("the pairs run", || rounds.load(Ordering::Relaxed) > 100);
        for n in 0..amount(200, 20_000) {
            assert_eq!(gort::spawn(move || n).join().unwrap(), n);
        }
        let before = rounds.load(Ordering::Relaxed);
        until("the pairs still run", || rounds.load(Ordering::Relaxed) > before + 100);
    }
}

#[test]
fn a_yield_loop_lets_others_run() {
    for bound in [false, true] {
        let _procs = Procs::set(1);
        let endless = Endless::new();
        let stop = endless.stop_flag();
        let yields = Arc::new(AtomicUsize::new(0));
        let counted = yields.clone();
        let looping = gort::spawn(move || {
            if bound {
                gort::runtime::lock_os_thread();
            }
            while !stop.load(Ordering::Relaxed) {
                gort::yield_now();
                counted.fetch_add(1, Ordering::Relaxed);
            }
            if bound {
                gort::runtime::unlock_os_thread();
            }
        });
        for n in 0..amount(200, 20_000) {
            assert_eq!(gort::spawn(move || n).join().unwrap(), n);
        }
        gort::run(|| {
            for n in 0..amount(200, 20_000) {
                assert_eq!(gort::spawn(move || n).join().unwrap(), n);
            }
        });
        let before = yields.load(Ordering::Relaxed);
        until("it still yields", || yields.load(Ordering::Relaxed) > before + 10);
        drop(endless);
        looping.join().unwrap();
    }
}

#[test]
fn yield_loops_take_turns() {
    let _procs = Procs::set(1);
    let counts: Arc<Vec<_>> = Arc::new((0..5).map(|_| AtomicUsize::new(0)).collect());
    let endless = Endless::new();
    let handles: Vec<_> = (0..counts.len())
        .map(|n| {
            let (counts, stop) = (counts.clone(), endless.stop_flag());
            gort::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    counts[n].fetch_add(1, Ordering::Relaxed);
                    gort::yield_now();
                }
            })
        })
        .collect();
    let all = || counts.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
    until("all have yielded often", || all().into_iter().all(|count| count > 2_000));
    drop(endless);
    for handle in handles {
        handle.join().unwrap();
    }
    let all = all();
    let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
    assert!(most / least < 20, "{all:?}");
}

#[test]
fn a_stream_of_new_goroutines_does_not_starve_old_ones() {
    for procs in [1, 2] {
        let _procs = Procs::set(procs);
        let endless = Endless::new();
        let stop = endless.stop_flag();
        let old = Arc::new(AtomicUsize::new(0));
        let counted = old.clone();
        let stops = stop.clone();
        let worker = gort::spawn(move || {
            while !stops.load(Ordering::Relaxed) {
                counted.fetch_add(1, Ordering::Relaxed);
                gort::yield_now();
            }
        });
        // Never yields and never joins: only the end of its time slice stops it.
        let spawner = gort::spawn(move || {
            let mut spawned = 0usize;
            while !stop.load(Ordering::Relaxed) {
                gort::spawn(|| ());
                spawned += 1;
                // No more than a queue can hold: this test is about turns, not about memory.
                while gort::runtime::num_goroutines() > 1_000 && !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
            spawned
        });
        let before = old.load(Ordering::Relaxed);
        until("the old one has had its turns", || old.load(Ordering::Relaxed) > before + 20);
        for n in 0..20 {
            assert_eq!(gort::spawn(move || n).join().unwrap(), n);
        }
        drop(endless);
        worker.join().unwrap();
        assert!(spawner.join().unwrap() > 0);
    }
}

#[test]
fn spawned_goroutines_all_end_although_hogs_compute() {
    for procs in [1, 2] {
        let _procs = Procs::set(procs);
        let endless = Endless::new();
        let hogs: Vec<_> = (0..3)
            .map(|_| {
                let stop = endless.stop_flag();
                gort::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        for n in 0..amount(20, 1_000) {
            assert_eq!(gort::spawn(move || n).join().unwrap(), n);
            gort::run(|| gort::sleep(Duration::from_micros(100)));
        }
        drop(endless);
        for hog in hogs {
            hog.join().unwrap();
        }
    }
}

#[test]
fn each_of_several_hogs_gets_its_share() {
    let _procs = Procs::set(1);
    let counts: Arc<Vec<_>> = Arc::new((0..4).map(|_| AtomicUsize::new(0)).collect());
    let endless = Endless::new();
    let handles: Vec<_> = (0..counts.len())
        .map(|n| {
            let (counts, stop) = (counts.clone(), endless.stop_flag());
            gort::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    counts[n].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 1..=5 {
        let before: Vec<_> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        for (count, before) in counts.iter().zip(before) {
            until(&format!("each has computed in round {round}"), || count.load(Ordering::Relaxed) > before);
        }
    }
    drop(endless);
    for handle in handles {
        handle.join().unwrap();
    }
}
