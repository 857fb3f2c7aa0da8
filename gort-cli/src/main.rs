//! The `gort` program: goroutines at work, with figures.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::chan;

const USAGE: &str = "usage: gort [demo | doctor]

  demo    a small worker pool, an uneven load, hogs and blocking calls, and a crowd (the default)
  doctor  what this machine offers, and what gort makes of it";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["demo"] => {
            gort::run(demo);
            ExitCode::SUCCESS
        }
        ["doctor"] => {
            print!("{}", gort::runtime::platform());
            ExitCode::SUCCESS
        }
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("gort: cannot understand `{}`\n{USAGE}", arguments.join(" "));
            ExitCode::from(2)
        }
    }
}

fn demo() {
    println!("gort: {} processors for goroutines (GOMAXPROCS)\n", gort::runtime::max_procs());
    worker_pool();
    uneven_load();
    nothing_starves();
    crowd();
    println!(
        "\nWhere to look next: README.md, examples/, and compare/run for Go, Tokio and threads beside it."
    );
}

/// A fixed number of goroutines serve a bounded queue of mixed jobs.
fn worker_pool() {
    enum Job {
        Compute(u64),
        Wait(Duration),
    }
    let begin = Instant::now();
    let (jobs, queue) = chan::bounded(32);
    let (results, done) = chan::unbounded();
    for _ in 0..8 {
        let (queue, results) = (queue.clone(), results.clone());
        gort::spawn(move || {
            for job in queue {
                let primes = match job {
                    Job::Compute(limit) => count_primes(0, limit),
                    // An ordinary blocking call, unmarked: only this goroutine waits.
                    Job::Wait(time) => {
                        std::thread::sleep(time);
                        0
                    }
                };
                if results.send(primes).is_err() {
                    return;
                }
            }
        });
    }
    drop(results);
    gort::spawn(move || {
        for n in 0..200u64 {
            let job = if n % 2 == 0 { Job::Compute(2_000 + n) } else { Job::Wait(Duration::from_millis(2)) };
            if jobs.send(job).is_err() {
                return;
            }
        }
    });
    let (count, primes) = done.iter().fold((0, 0), |(count, sum), primes| (count + 1, sum + primes));
    println!(
        "worker pool    {count} jobs, half of them blocking for 2 ms, by 8 goroutines in {:.0?} ({primes} primes)",
        begin.elapsed()
    );
}

/// All work starts on one processor; the others steal it.
fn uneven_load() {
    let begin = Instant::now();
    let handles: Vec<_> = (0..64u64)
        .map(|n| gort::spawn(move || count_primes(n * 1_000, n * 1_000 + 100 * (n % 8 + 1))))
        .collect();
    let primes: usize = handles.into_iter().map(|handle| handle.join().expect("no panic")).sum();
    println!(
        "uneven load    64 goroutines, 1 to 8 times the work, in {:.0?} ({primes} primes)",
        begin.elapsed()
    );
}

/// Endless loops on every processor, and a sleeper that must not notice.
fn nothing_starves() {
    let stop = Arc::new(AtomicBool::new(false));
    let hogs: Vec<_> = (0..2 * gort::runtime::max_procs())
        .map(|_| {
            let stop = stop.clone();
            gort::spawn(move || while !stop.load(Ordering::Relaxed) {})
        })
        .collect();
    let mut late: Vec<Duration> = (0..50)
        .map(|_| {
            let begin = Instant::now();
            gort::sleep(Duration::from_millis(1));
            begin.elapsed() - Duration::from_millis(1)
        })
        .collect();
    stop.store(true, Ordering::Relaxed);
    let count = hogs.len();
    for hog in hogs {
        hog.join().expect("no panic");
    }
    late.sort_unstable();
    println!(
        "hogs           {count} endless loops; a 1 ms sleeper woke {:.0?} late in the median",
        late[late.len() / 2]
    );
}

/// A hundred thousand goroutines at once.
fn crowd() {
    const COUNT: usize = 100_000;
    let begin = Instant::now();
    let ran = Arc::new(AtomicUsize::new(0));
    let (open, gate) = chan::bounded::<()>(0);
    let handles: Vec<_> = (0..COUNT)
        .map(|_| {
            let (ran, gate) = (ran.clone(), gate.clone());
            gort::spawn(move || {
                // Parked until the gate opens, which is when its sender is dropped.
                let _closed = gate.recv();
                ran.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    let spawned = begin.elapsed();
    drop(open);
    for handle in handles {
        handle.join().expect("no panic");
    }
    println!(
        "crowd          {} goroutines at once: started in {spawned:.0?}, all woken and ended in {:.0?}",
        ran.load(Ordering::Relaxed),
        begin.elapsed() - spawned
    );
}

fn count_primes(from: u64, to: u64) -> usize {
    (from.max(2)..to).filter(|&n| (2..).take_while(|d| d * d <= n).all(|d| n % d != 0)).count()
}
