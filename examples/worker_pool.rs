//! A fixed number of goroutines processes a shared queue of jobs.
//!
//! `cargo run --example worker_pool`

use gort::chan::bounded;

/// The number of steps that the Collatz sequence of `n` takes to reach 1: an amount of work that is hard to
/// predict.
fn steps(mut n: u64) -> u32 {
    let mut count = 0;
    while n != 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        count += 1;
    }
    count
}

#[gort::main]
fn main() {
    const JOBS: u64 = 1000;
    let (jobs, inbox) = bounded(16);
    let (results, outbox) = bounded(16);

    // Both ends of a channel can be cloned. The next goroutine of the pool that is free takes the next job.
    for _ in 0..4 {
        let (inbox, results) = (inbox.clone(), results.clone());
        gort::spawn(move || {
            for n in inbox {
                results.send((steps(n), n)).unwrap();
            }
        });
    }
    // Now only the pool holds these ends. When the whole pool is done, the channel closes and `outbox` ends.
    drop((inbox, results));

    gort::spawn(move || {
        // A send waits while the queue is full, so jobs are produced only as fast as the pool completes them.
        for n in 1..=JOBS {
            jobs.send(n).unwrap();
        }
        // `jobs` is dropped here. The channel closes, and the loops over `inbox` end.
    });

    let results: Vec<(u32, u64)> = outbox.iter().collect();
    let (steps, n) = results.iter().max().unwrap();
    println!("{} jobs done; the longest way to 1 starts at {n}: {steps} steps", results.len());
}
