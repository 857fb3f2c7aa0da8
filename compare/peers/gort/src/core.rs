//! Group "core": spawning, joining, yielding, parking.

use crate::gate::gate;
use crate::kind::Kind;
use crate::warm_then_time;
use compare_common::{
    Args, DEEP_FRAMES, FIB_REPEAT, Outcome, Report, SPAWN_BATCH, deep, fib_forks, memory, skynet_nodes,
    skynet_sum, use_malloc,
};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub fn spawn_join<K: Kind>(args: &Args) -> Outcome {
    let batches = args.size(1_000_000) / SPAWN_BATCH;
    let time = K::warm_then_time(batches, |batches| {
        let mut handles = Vec::with_capacity(SPAWN_BATCH as usize);
        for _ in 0..batches {
            handles.extend((0..SPAWN_BATCH).map(|_| K::go(|| {})));
            handles.drain(..).for_each(|h| h.join().unwrap());
        }
    });
    Ok(Report::new(batches * SPAWN_BATCH, time))
}

pub fn spawn_one(args: &Args) -> Outcome {
    let n = args.size(500_000);
    let time = warm_then_time(n, |n| (0..n).for_each(|_| gort::spawn(|| {}).join().unwrap()));
    Ok(Report::new(n, time))
}

pub fn yield_now<K: Kind>(args: &Args) -> Outcome {
    let goroutines = 2 * args.procs as u64;
    let each = args.size(4_000_000) / goroutines;
    let time = K::warm_then_time(each, move |each| {
        let yielder = || K::go(move || (0..each).for_each(|_| gort::yield_now()));
        let handles: Vec<_> = (0..goroutines).map(|_| yielder()).collect();
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
    let children: [_; 10] = std::array::from_fn(|i| gort::spawn(move || tree(first + i as u64 * part, part)));
    children.into_iter().map(|h| h.join().unwrap()).sum()
}

pub fn parked<K: Kind>(args: &Args) -> Outcome {
    let n = args.size(1_000_000);
    Ok(K::run(move || {
        let before = memory();
        let mut gate = gate(n);
        let arrived = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        for _ in 0..n {
            let (arrived, pass) = (arrived.clone(), gate.pass());
            gate.passer(K::go(move || {
                arrived.fetch_add(1, Ordering::Relaxed);
                pass();
            }));
        }
        while arrived.load(Ordering::Relaxed) < n {
            gort::yield_now();
        }
        let spawned = start.elapsed();
        std::thread::sleep(Duration::from_millis(50));
        let bytes = memory() - before;
        let start = Instant::now();
        gate.open();
        Report::parked(n, spawned, start.elapsed(), bytes)
    }))
}

pub fn fib(args: &Args) -> Outcome {
    let n = args.size(25);
    let time = gort::run(move || {
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
    let left = gort::spawn(move || fork(n - 1));
    let right = fork(n - 2);
    left.join().unwrap() + right
}

pub fn stack_deep(args: &Args) -> Outcome {
    let batches = args.size(20_000) / SPAWN_BATCH;
    let time = warm_then_time(batches, |batches| {
        for _ in 0..batches {
            let handles: Vec<_> = (0..SPAWN_BATCH).map(|_| gort::spawn(|| deep(DEEP_FRAMES))).collect();
            handles.into_iter().for_each(|h| assert_eq!(h.join().unwrap(), DEEP_FRAMES));
        }
    });
    Ok(Report::new(batches * SPAWN_BATCH, time))
}

pub fn malloc(args: &Args, goroutines: u64) -> Outcome {
    let each = args.size(10_000_000) / goroutines;
    let time = warm_then_time(each, move |each| {
        let handles: Vec<_> = (0..goroutines).map(|_| gort::spawn(move || use_malloc(each))).collect();
        handles.into_iter().for_each(|h| h.join().unwrap());
    });
    Ok(Report::new(each * goroutines, time))
}
