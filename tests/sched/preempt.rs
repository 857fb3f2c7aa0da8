//! Goroutines that a signal stops between two arbitrary instructions: they need no thread meanwhile,
//! continue on any thread with all their registers, and keep their thread where moving would be wrong.

#[path = "../common/mod.rs"]
mod common;

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Hogs, Procs, amount, join_all, threads, tid, until};
use gort::runtime::stats;

/// Ends the loops of a test, also when the test fails.
struct Stop(Arc<AtomicBool>);

impl Stop {
    fn new() -> Stop {
        Stop(Arc::new(AtomicBool::new(false)))
    }

    fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How late a sleeper of 1 ms is (99th percentile), beside `loops` endless loops.
fn lateness_beside(loops: usize) -> Duration {
    const SLEEPS: usize = 300;
    const SLEEP: Duration = Duration::from_millis(1);
    let sleep = || {
        let start = Instant::now();
        gort::sleep(SLEEP);
        start.elapsed().saturating_sub(SLEEP)
    };
    let measure = Arc::new(AtomicBool::new(false));
    let begin = measure.clone();
    // It sleeps before there are any loops: a new goroutine would wait behind all of them once.
    let sleeper = gort::spawn(move || {
        while !begin.load(Ordering::Relaxed) {
            sleep();
        }
        (0..SLEEPS).map(|_| sleep()).collect::<Vec<_>>()
    });
    let _hogs = Hogs::start(loops);
    measure.store(true, Ordering::Relaxed);
    let mut late = sleeper.join().unwrap();
    late.sort_unstable();
    late[SLEEPS * 99 / 100]
}

#[test]
fn any_number_of_endless_loops_runs_beside_a_sleeper_and_without_a_thread_for_each() {
    let loops = amount(600, 10_000);
    let _procs = Procs::set(2);
    // The machine may be busy with something else for a moment: one of some tries has to show it.
    let mut tries = Vec::new();
    let is_on_time = |&(few, many): &(Duration, Duration)| many <= few * 2;
    while !tries.iter().any(is_on_time) {
        assert!(tries.len() < 10, "beside {loops} loops a sleeper is later than beside 8: {tries:?}");
        tries.push((lateness_beside(8), lateness_beside(loops)));
    }
    println!("lateness (p99) beside 8 loops, beside {loops}: {tries:?}");
    let _hogs = Hogs::start(loops);
    let before = stats().preempted_by_signal;
    until("loops were stopped", || stats().preempted_by_signal > before + 200);
    let threads = threads().len();
    assert!(threads < 40, "{threads} threads for {loops} loops");
}

#[test]
fn an_interrupted_goroutine_continues_on_any_thread() {
    let _procs = Procs::set(2);
    let stop = Stop::new();
    let moved = Arc::new(AtomicUsize::new(0));
    let loops: Vec<_> = (0..5)
        .map(|_| {
            let (stop, moved) = (stop.flag(), moved.clone());
            gort::spawn(move || {
                let mut last = tid();
                while !stop.load(Ordering::Relaxed) {
                    let now = tid();
                    if now != last {
                        moved.fetch_add(1, Ordering::Relaxed);
                    }
                    last = now;
                    (0..1000).for_each(|n: i32| _ = black_box(n));
                }
            })
        })
        .collect();
    until("loops went on on other threads", || moved.load(Ordering::Relaxed) >= 10);
    drop(stop);
    join_all(loops);
}

/// A computation that keeps as many vector and integer registers busy as there are. It returns the same every
/// time.
#[inline(never)]
fn checksum(turns: u32) -> (u64, u64) {
    let mut lanes = [1.0f64; 32];
    let mut words = [1u64, 2, 3, 5, 7, 11, 13, 17];
    for turn in 0..turns {
        for (n, lane) in lanes.iter_mut().enumerate() {
            *lane = (*lane + n as f64 * 0.125 + f64::from(turn)).sqrt();
        }
        for word in &mut words {
            *word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1).rotate_left(7);
        }
    }
    let bits = lanes.iter().fold(0u64, |sum, lane| sum.rotate_left(1) ^ lane.to_bits());
    (bits, words.iter().fold(0, |sum, word| sum ^ word))
}

#[test]
fn all_registers_survive_being_interrupted() {
    let _procs = Procs::set(2);
    let turns = 20_000;
    let expected = checksum(turns);
    let stop = Stop::new();
    let before = stats().preempted_by_signal;
    let loops: Vec<_> = (0..9)
        .map(|_| {
            let stop = stop.flag();
            gort::spawn(move || {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(checksum(black_box(turns)), expected);
                    count += 1;
                }
                count
            })
        })
        .collect();
    let enough = amount(300, 3_000) as u64;
    until("enough interruptions", || stats().preempted_by_signal > before + enough);
    drop(stop);
    for one in loops {
        assert!(one.join().unwrap() > 0);
    }
}

#[test]
fn goroutines_that_allocate_are_interrupted_and_keep_their_memory_in_order() {
    let _procs = Procs::set(2);
    let stop = Stop::new();
    let before = stats().preempted_by_signal;
    let loops: Vec<_> = (0..9u64)
        .map(|seed| {
            let stop = stop.flag();
            gort::spawn(move || {
                let mut map: HashMap<u64, Vec<u64>> = HashMap::new();
                let mut n = seed;
                while !stop.load(Ordering::Relaxed) {
                    n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
                    let (key, len) = (n >> 55, (n >> 40) % 500);
                    if let Some(old) = map.insert(key, vec![key ^ seed; len as usize]) {
                        assert!(old.iter().all(|&word| word == key ^ seed), "memory is damaged");
                    }
                }
            })
        })
        .collect();
    let enough = amount(200, 3_000) as u64;
    until("enough interruptions", || stats().preempted_by_signal > before + enough);
    drop(stop);
    join_all(loops);
}

#[test]
fn panics_unwind_from_goroutines_that_were_interrupted() {
    let _procs = Procs::set(1);
    let before = stats().preempted_by_signal;
    let stop = Stop::new();
    let loops: Vec<_> = (0..4usize)
        .map(|n| {
            let stop = stop.flag();
            gort::spawn::<_, ()>(move || {
                while !stop.load(Ordering::Relaxed) {}
                std::panic::resume_unwind(Box::new(n));
            })
        })
        .collect();
    until("all were interrupted", || stats().preempted_by_signal > before + 20);
    drop(stop);
    for (n, one) in loops.into_iter().enumerate() {
        assert_eq!(one.join().unwrap_err().downcast_ref::<usize>(), Some(&n));
    }
}

#[test]
fn deep_in_its_stack_a_goroutine_is_interrupted_too() {
    fn recurse(depth: usize, stop: &AtomicBool) -> usize {
        let frame = [depth as u8; 512];
        if depth > 0 {
            return recurse(depth - 1, stop) + usize::from(black_box(&frame)[depth % 512] == depth as u8);
        }
        while !stop.load(Ordering::Relaxed) {
            black_box(&frame);
        }
        0
    }
    let _procs = Procs::set(1);
    let stop = Stop::new();
    let before = stats().preempted_by_signal;
    let depths = [1, 10, 100, 300, 1000, 5000];
    let loops: Vec<_> = depths
        .into_iter()
        .map(|depth| {
            let stop = stop.flag();
            gort::spawn(move || recurse(depth, &stop))
        })
        .collect();
    until("all were interrupted", || stats().preempted_by_signal > before + 4 * depths.len() as u64);
    drop(stop);
    for (depth, one) in depths.into_iter().zip(loops) {
        assert_eq!(one.join().unwrap(), depth);
    }
}
