//! Measures how long other goroutines wait for a P when a goroutine blocks its thread without telling the
//! runtime: `cargo bench --bench blocked`.
//!
//! There is one P. One goroutine repeatedly computes for a while and then blocks its thread. Another
//! goroutine yields all the time and records the gaps in which it could not run. The aim is half a
//! millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TIMES: u64 = 1000;
const BLOCKED: Duration = Duration::from_millis(5);

fn main() {
    gort::runtime::set_max_procs(1);
    let mut gaps = gort::run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let other = gort::spawn(move || gaps(&stopped));
        for n in 0..TIMES {
            thread::sleep(BLOCKED);
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(n * 37 % 900) {
                gort::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
        other.join().expect("it does not panic")
    });
    gaps.sort_unstable();
    let percent = |percent: usize| gaps[(gaps.len() - 1) * percent / 100];
    println!("{} gaps: p50 {:?}, p90 {:?}, p99 {:?}", gaps.len(), percent(50), percent(90), percent(99));
}

/// Records the gaps in which the caller did not run. Gaps of up to 100 µs are ordinary switches and do not
/// count.
fn gaps(stop: &AtomicBool) -> Vec<Duration> {
    let (mut gaps, mut last) = (Vec::new(), Instant::now());
    while !stop.load(Ordering::Relaxed) {
        gort::yield_now();
        let now = Instant::now();
        if now - last > Duration::from_micros(100) {
            gaps.push(now - last);
        }
        last = now;
    }
    gaps
}
