//! A fixed number of goroutines shares a queue of jobs.
//!
//! `cargo run --example worker_pool`

use gort::chan::bounded;

/// The number of steps until 1 in the Collatz sequence: work of unforeseeable size.
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

    // Every channel end can be cloned; whoever is free takes the next job.
    for _ in 0..4 {
        let (inbox, results) = (inbox.clone(), results.clone());
        gort::spawn(move || {
            for n in inbox {
                results.send((steps(n), n)).unwrap();
            }
        });
    }
    // From now on only the pool holds these ends: when it is done, `outbox` ends.
    drop((inbox, results));

    gort::spawn(move || {
        // A send waits while the queue is full: jobs are made only as fast as they are done.
        for n in 1..=JOBS {
            jobs.send(n).unwrap();
        }
        // `jobs` is dropped here. The channel closes, and the loops over `inbox` end.
    });

    let results: Vec<(u32, u64)> = outbox.iter().collect();
    let (steps, n) = results.iter().max().unwrap();
    println!("{} jobs done; the longest way to 1 starts at {n}: {steps} steps", results.len());
}
