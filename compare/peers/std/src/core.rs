//! Group "core": spawning, joining, yielding, parking.

use compare_common::{
    Args, DEEP_FRAMES, FIB_REPEAT, Outcome, Report, SPAWN_BATCH, deep, fib_forks, memory, skynet_nodes,
    skynet_sum, use_malloc, warm_then_time,
};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

pub fn spawn_join(args: &Args) -> Outcome {
    let batches = args.size(20_000) / SPAWN_BATCH;
    let time = warm_then_time(batches, |batches| {
        let mut handles = Vec::with_capacity(SPAWN_BATCH as usize);
        for _ in 0..batches {
            handles.extend((0..SPAWN_BATCH).map(|_| thread::spawn(|| {})));
            handles.drain(..).for_each(|h| h.join().unwrap());
        }
    });
    Ok(Report::new(batches * SPAWN_BATCH, time))
}

pub fn spawn_one(args: &Args) -> Outcome {
    let n = args.size(10_000);
    let time = warm_then_time(n, |n| (0..n).for_each(|_| thread::spawn(|| {}).join().unwrap()));
    Ok(Report::new(n, time))
}

pub fn yield_now(args: &Args) -> Outcome {
    let threads = 2 * args.procs as u64;
    let each = args.size(1_000_000) / threads;
    let time = warm_then_time(each, |each| {
        let handles: Vec<_> = (0..threads)
            .map(|_| thread::spawn(move || (0..each).for_each(|_| thread::yield_now())))
            .collect();
        handles.into_iter().for_each(|h| h.join().unwrap());
    });
    Ok(Report::new(each * threads, time))
}

pub fn skynet(args: &Args) -> Outcome {
    let leaves = args.size(1000);
    let time = warm_then_time(leaves, |leaves| assert_eq!(tree(0, leaves), skynet_sum(leaves)));
    Ok(Report::new(skynet_nodes(leaves), time))
}

fn tree(first: u64, leaves: u64) -> u64 {
    if leaves <= 1 {
        return first;
    }
    let part = leaves / 10;
    let children: [_; 10] =
        std::array::from_fn(|i| thread::spawn(move || tree(first + i as u64 * part, part)));
    children.into_iter().map(|h| h.join().unwrap()).sum()
}

pub fn parked(args: &Args) -> Outcome {
    let n = args.size(10_000);
    let before = memory();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let arrived = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let threads: Vec<_> = (0..n)
        .map(|_| {
            let (gate, arrived) = (gate.clone(), arrived.clone());
            thread::spawn(move || {
                arrived.fetch_add(1, Ordering::Relaxed);
                drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap());
            })
        })
        .collect();
    while arrived.load(Ordering::Relaxed) < n {
        thread::yield_now();
    }
    let spawned = start.elapsed();
    thread::sleep(Duration::from_millis(50));
    let bytes = memory() - before;
    let start = Instant::now();
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    threads.into_iter().for_each(|h| h.join().unwrap());
    Ok(Report::parked(n, spawned, start.elapsed(), bytes))
}

pub fn fib(args: &Args) -> Outcome {
    let n = args.size(14);
    black_box(fork(n));
    let start = Instant::now();
    for _ in 0..FIB_REPEAT {
        black_box(fork(n));
    }
    Ok(Report::new(fib_forks(n) * FIB_REPEAT, start.elapsed()))
}

fn fork(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let left = thread::spawn(move || fork(n - 1));
    let right = fork(n - 2);
    left.join().unwrap() + right
}

pub fn stack_deep(args: &Args) -> Outcome {
    let batches = args.size(20_000) / SPAWN_BATCH;
    let time = warm_then_time(batches, |batches| {
        for _ in 0..batches {
            let handles: Vec<_> = (0..SPAWN_BATCH).map(|_| thread::spawn(|| deep(DEEP_FRAMES))).collect();
            handles.into_iter().for_each(|h| assert_eq!(h.join().unwrap(), DEEP_FRAMES));
        }
    });
    Ok(Report::new(batches * SPAWN_BATCH, time))
}

pub fn malloc(args: &Args, goroutines: u64) -> Outcome {
    let each = args.size(10_000_000) / goroutines;
    let time = warm_then_time(each, move |each| {
        let handles: Vec<_> = (0..goroutines).map(|_| thread::spawn(move || use_malloc(each))).collect();
        handles.into_iter().for_each(|h| h.join().unwrap());
    });
    Ok(Report::new(each * goroutines, time))
}
