//! Measures how much work endless loops lose to preemption and to sysmon: `cargo bench --bench hogs`.
//!
//! 1. 2·P loops beside a goroutine that sleeps 1 ms at a time, compared with the same loops alone.
//! 2. One loop in a goroutine, which sysmon watches, compared with the same loop in an OS thread.
//!
//! Prints ratios of the work done, as medians of interleaved rounds: 1 is ideal.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(1500);

fn main() {
    let loops = 2 * gort::runtime::max_procs();
    ratio(&format!("{loops} loops beside a sleeper / alone"), || hogs(loops, true), || hogs(loops, false));
    ratio("one loop in a goroutine / in a thread", || hogs(1, false), thread_hog);
}

fn ratio(what: &str, mut of: impl FnMut() -> u64, mut to: impl FnMut() -> u64) {
    let mut pairs: Vec<f64> = (0..ROUNDS).map(|_| of() as f64 / to() as f64).collect();
    pairs.sort_by(f64::total_cmp);
    println!("{what}: {:.3} ({:.3} to {:.3})", pairs[ROUNDS / 2], pairs[0], pairs[ROUNDS - 1]);
}

fn spin(stop: &AtomicBool) -> u64 {
    let (mut turns, mut value) = (0, 1u64);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        turns += 1;
    }
    black_box(value);
    turns
}

/// The total number of turns that `loops` endless loops complete in [`TIME`].
fn hogs(loops: usize, beside_a_sleeper: bool) -> u64 {
    let stop = Arc::new(AtomicBool::new(false));
    let stopper = stop.clone();
    gort::run(move || {
        let sleeper = beside_a_sleeper.then(|| {
            let stop = stop.clone();
            gort::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    gort::sleep(Duration::from_millis(1));
                }
            })
        });
        let loops: Vec<_> = (0..loops)
            .map(|_| {
                let stop = stop.clone();
                gort::spawn(move || spin(&stop))
            })
            .collect();
        thread::spawn(move || {
            thread::sleep(TIME);
            stopper.store(true, Ordering::Relaxed);
        });
        let turns = loops.into_iter().map(|handle| handle.join().expect("loops do not panic")).sum();
        if let Some(sleeper) = sleeper {
            sleeper.join().expect("a sleeper does not panic");
        }
        turns
    })
}

fn thread_hog() -> u64 {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let hog = thread::spawn(move || spin(&stopped));
    thread::sleep(TIME);
    stop.store(true, Ordering::Relaxed);
    hog.join().expect("a loop does not panic")
}
