//! Many goroutines that block their threads at once, without telling the runtime, take about as long as OS
//! threads, and hold up nobody else.

#[path = "../common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use common::{Procs, alone, amount, full, join_all, until};

const NAP: Duration = Duration::from_millis(1);
/// How long the calls would take that the gate stands for.
const CALL: Duration = Duration::from_millis(500);

/// A round may be disturbed by other processes, so that the best of this many counts.
const ROUNDS: usize = 8;

/// A gate that blocks the threads of those who wait.
struct Gate {
    expected: usize,
    waiting: AtomicUsize,
    /// When the last one came.
    complete: OnceLock<Instant>,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn new(expected: usize) -> Arc<Gate> {
        Arc::new(Gate {
            expected,
            waiting: AtomicUsize::new(0),
            complete: OnceLock::new(),
            open: Mutex::new(false),
            opened: Condvar::new(),
        })
    }

    fn wait(&self) {
        if self.waiting.fetch_add(1, Ordering::SeqCst) + 1 == self.expected {
            self.complete.set(Instant::now()).unwrap();
        }
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }

    /// Waits until all have come. Returns how long after `start` that was.
    fn until_complete(&self, start: Instant, sleep: impl Fn(Duration)) -> Duration {
        until("all are blocked", || {
            sleep(NAP);
            self.complete.get().is_some()
        });
        self.complete.get().unwrap().duration_since(start)
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// What a burst cost: the time until all were blocked, and the worst lateness of a sleeper meanwhile.
#[derive(Clone, Copy, Debug)]
struct Burst {
    all_blocked: Duration,
    late: Duration,
}

impl Burst {
    /// Whether the burst, with calls of half a second, takes at most this many times as long as `other`.
    fn takes_at_most(self, times: f64, other: Burst) -> bool {
        self.all_blocked + CALL <= (other.all_blocked + CALL).mul_f64(times)
    }
}

fn sleeper(stop: &AtomicBool, sleep: impl Fn(Duration)) -> Duration {
    let mut worst = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        sleep(NAP);
        worst = worst.max(start.elapsed().saturating_sub(NAP));
    }
    worst
}

fn goroutines(count: usize) -> Burst {
    gort::run(move || {
        let (gate, stop) = (Gate::new(count), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let beside = gort::spawn(move || sleeper(&stopped, gort::sleep));
        gort::sleep(5 * NAP);
        let start = Instant::now();
        let wait = || {
            let gate = gate.clone();
            gort::spawn(move || gate.wait())
        };
        let all: Vec<_> = (0..count).map(|_| wait()).collect();
        let all_blocked = gate.until_complete(start, gort::sleep);
        stop.store(true, Ordering::Relaxed);
        let late = beside.join().unwrap();
        gate.open();
        join_all(all);
        Burst { all_blocked, late }
    })
}

fn threads(count: usize) -> Burst {
    let (gate, stop) = (Gate::new(count), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let beside = thread::spawn(move || sleeper(&stopped, thread::sleep));
    thread::sleep(5 * NAP);
    let start = Instant::now();
    let wait = || {
        let gate = gate.clone();
        thread::spawn(move || gate.wait())
    };
    let all: Vec<_> = (0..count).map(|_| wait()).collect();
    let all_blocked = gate.until_complete(start, thread::sleep);
    stop.store(true, Ordering::Relaxed);
    let late = beside.join().unwrap();
    gate.open();
    all.into_iter().for_each(|one| one.join().unwrap());
    Burst { all_blocked, late }
}

#[test]
fn a_burst_of_unmarked_blocking_calls_takes_about_as_long_as_threads() {
    if !alone("a_burst_of_unmarked_blocking_calls_takes_about_as_long_as_threads") {
        return;
    }
    let _procs = Procs::set(2);
    best_of_rounds(amount(500, 2_000), |os, own| {
        // Threads block in the order in which they start. Goroutines also have to be found blocked, two at a
        // time: each may take as long as four thread starts.
        let quick = own.all_blocked <= os.all_blocked * 4;
        // Without a turn of its own the sleeper would wait until all are blocked.
        let on_time = own.late <= (own.all_blocked / 4).max(os.late * 2);
        quick && on_time && (!full() || own.takes_at_most(1.3, os) && own.late <= 50 * NAP)
    });
}

#[test]
fn a_burst_of_ten_thousand_takes_at_most_twice_as_long_as_threads() {
    // Ten thousand threads at once are too much for a quick run.
    if !full() || !alone("a_burst_of_ten_thousand_takes_at_most_twice_as_long_as_threads") {
        return;
    }
    // All of them hold a thread, and the sleeper needs one, too.
    gort::runtime::Config::new().max_procs(2).max_threads(11_000).start().unwrap();
    best_of_rounds(10_000, |os, own| own.takes_at_most(2.0, os));
}

/// Compares threads and goroutines until a round is good.
fn best_of_rounds(count: usize, is_good: impl Fn(Burst, Burst) -> bool) {
    let mut seen = Vec::new();
    for _ in 0..ROUNDS {
        let (os, own) = (threads(count), goroutines(count));
        if is_good(os, own) {
            return;
        }
        seen.push((os, own));
    }
    panic!("threads and goroutines: {seen:#?}");
}
