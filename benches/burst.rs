//! Measures a burst of blocking calls that the runtime is not told about:
//! `cargo bench --bench burst [-- COUNT [MILLISECONDS]]`.
//!
//! COUNT goroutines (2,000) start at once, and each blocks its thread (for 500 ms). Beside them one goroutine
//! sleeps for 1 ms, again and again, and records by how much it wakes up late. For comparison, as many
//! OS threads do the same. Both sides start their threads in the measured time, except in the second round
//! of goroutines, which finds the threads of the first one idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(1);

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let count = numbers.next().unwrap_or(2_000) as usize;
    let call = Duration::from_millis(numbers.next().unwrap_or(500));
    // Starts the runtime.
    gort::run(|| ());
    report("threads", threads(count, call));
    report("goroutines", goroutines(count, call));
    report("goroutines, again", goroutines(count, call));
}

fn report(name: &str, (total, late): (Duration, Duration)) {
    println!("{name}: {total:.3?}, the sleeper is at most {late:.2?} late");
}

fn goroutines(count: usize, call: Duration) -> (Duration, Duration) {
    gort::run(move || {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let sleeper = gort::spawn(move || sleeper(&stopped, gort::sleep));
        gort::sleep(5 * NAP);
        let start = Instant::now();
        let all: Vec<_> = (0..count).map(|_| gort::spawn(move || thread::sleep(call))).collect();
        all.into_iter().for_each(|one| one.join().expect("it does not panic"));
        let total = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        (total, sleeper.join().expect("it does not panic"))
    })
}

fn threads(count: usize, call: Duration) -> (Duration, Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let sleeper = thread::spawn(move || sleeper(&stopped, thread::sleep));
    thread::sleep(5 * NAP);
    let start = Instant::now();
    let all: Vec<_> = (0..count).map(|_| thread::spawn(move || thread::sleep(call))).collect();
    all.into_iter().for_each(|one| one.join().expect("it does not panic"));
    let total = start.elapsed();
    stop.store(true, Ordering::Relaxed);
    (total, sleeper.join().expect("it does not panic"))
}

/// Sleeps again and again. Returns by how much it was late at worst.
fn sleeper(stop: &AtomicBool, sleep: impl Fn(Duration)) -> Duration {
    let mut worst = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        sleep(NAP);
        worst = worst.max(start.elapsed().saturating_sub(NAP));
    }
    worst
}
