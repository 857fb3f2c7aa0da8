//! Group "core": spawning, joining, yielding, parking.

use crate::{go, run, warm_then_time};
use compare_common::{
    Args, FIB_REPEAT, Outcome, Report, SPAWN_BATCH, fib_forks, memory, skynet_nodes, skynet_sum,
};
use may::coroutine;
use may::sync::SyncFlag;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub fn spawn_join(args: &Args) -> Outcome {
    let batches = args.size(1_000_000) / SPAWN_BATCH;
    let time = warm_then_time(batches, |batches| {
        let mut handles = Vec::with_capacity(SPAWN_BATCH as usize);
        for _ in 0..batches {
            handles.extend((0..SPAWN_BATCH).map(|_| go(|| {})));
            handles.drain(..).for_each(|h| h.join().unwrap());
        }
    });
    Ok(Report::new(batches * SPAWN_BATCH, time))
}

pub fn spawn_one(args: &Args) -> Outcome {
    let n = args.size(500_000);
    let time = warm_then_time(n, |n| (0..n).for_each(|_| go(|| {}).join().unwrap()));
    Ok(Report::new(n, time))
}

pub fn yield_now(args: &Args) -> Outcome {
    let goroutines = 2 * args.procs as u64;
    let each = args.size(4_000_000) / goroutines;
    let time = warm_then_time(each, move |each| {
        let handles: Vec<_> =
            (0..goroutines).map(|_| go(move || (0..each).for_each(|_| coroutine::yield_now()))).collect();
        handles.into_iter().for_each(|h| h.join().unwrap());
    });
    Ok(Report::new(each * goroutines, time))
}

pub fn skynet(args: &Args) -> Outcome {
    let leaves = args.size(1_000_000);
    let time = warm_then_time(leaves, |leaves| assert_eq!(tree(0, leaves), skynet_sum(leaves)));
    Ok(Report::new(skynet_nodes(leaves), time))
}

fn tree(first: u64, leaves: u64) -> u64 {
    if leaves <= 1 {
        return first;
    }
    let part = leaves / 10;
    let children: [_; 10] = std::array::from_fn(|i| go(move || tree(first + i as u64 * part, part)));
    children.into_iter().map(|h| h.join().unwrap()).sum()
}

/// The gate is a `SyncFlag`, may's primitive that wakes all waiters at once.
pub fn parked(args: &Args) -> Outcome {
    let n = args.size(20_000);
    Ok(run(move || {
        let before = memory();
        let (open, all_done) = (Arc::new(SyncFlag::new()), Arc::new(SyncFlag::new()));
        let (arrived, finished) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let start = Instant::now();
        for _ in 0..n {
            let (open, all_done) = (open.clone(), all_done.clone());
            let (arrived, finished) = (arrived.clone(), finished.clone());
            go(move || {
                arrived.fetch_add(1, Ordering::Relaxed);
                open.wait();
                // AcqRel: the last one sees what all others did before they incremented the counter.
                if finished.fetch_add(1, Ordering::AcqRel) + 1 == n {
                    all_done.fire();
                }
            });
        }
        while arrived.load(Ordering::Relaxed) < n {
            coroutine::yield_now();
        }
        let spawned = start.elapsed();
        coroutine::sleep(Duration::from_millis(50));
        let bytes = memory() - before;
        let start = Instant::now();
        open.fire();
        all_done.wait();
        Report::parked(n, spawned, start.elapsed(), bytes)
    }))
}

pub fn fib(args: &Args) -> Outcome {
    let n = args.size(25);
    let time = run(move || {
        black_box(fork(n));
        let start = Instant::now();
        for _ in 0..FIB_REPEAT {
            black_box(fork(n));
        }
        start.elapsed()
    });
    Ok(Report::new(fib_forks(n) * FIB_REPEAT, time))
}

fn fork(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let left = go(move || fork(n - 1));
    let right = fork(n - 2);
    left.join().unwrap() + right
}
