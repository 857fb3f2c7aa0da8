//! Group "core": spawning, joining, yielding, parking.

use crate::{run, warm_then_time};
use compare_common::{
    Args, FIB_REPEAT, Outcome, Report, SPAWN_BATCH, fib_forks, memory, skynet_nodes, skynet_sum,
};
use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task;

pub fn spawn_join(args: &Args) -> Outcome {
    let batches = args.size(1_000_000) / SPAWN_BATCH;
    let time = warm_then_time(args, batches, |batches| async move {
        let mut handles = Vec::with_capacity(SPAWN_BATCH as usize);
        for _ in 0..batches {
            handles.extend((0..SPAWN_BATCH).map(|_| tokio::spawn(async {})));
            for handle in handles.drain(..) {
                handle.await.unwrap();
            }
        }
    });
    Ok(Report::new(batches * SPAWN_BATCH, time))
}

pub fn spawn_one(args: &Args) -> Outcome {
    let n = args.size(500_000);
    let time = warm_then_time(args, n, |n| async move {
        for _ in 0..n {
            tokio::spawn(async {}).await.unwrap();
        }
    });
    Ok(Report::new(n, time))
}

pub fn yield_now(args: &Args) -> Outcome {
    let tasks = 2 * args.procs as u64;
    let each = args.size(4_000_000) / tasks;
    let time = warm_then_time(args, each, move |each| async move {
        let yielder = move || {
            tokio::spawn(async move {
                for _ in 0..each {
                    task::yield_now().await;
                }
            })
        };
        let handles: Vec<_> = (0..tasks).map(|_| yielder()).collect();
        for handle in handles {
            handle.await.unwrap();
        }
    });
    Ok(Report::new(each * tasks, time))
}

pub fn skynet(args: &Args) -> Outcome {
    let leaves = args.size(1_000_000);
    let time = warm_then_time(args, leaves, |leaves| async move {
        assert_eq!(tree(0, leaves).await, skynet_sum(leaves));
    });
    Ok(Report::new(skynet_nodes(leaves), time))
}

fn tree(first: u64, leaves: u64) -> impl Future<Output = u64> + Send {
    async move {
        if leaves <= 1 {
            return first;
        }
        let part = leaves / 10;
        let children: [_; 10] = std::array::from_fn(|i| tokio::spawn(tree(first + i as u64 * part, part)));
        let mut sum = 0;
        for child in children {
            sum += child.await.unwrap();
        }
        sum
    }
}

/// The gate is a `Notify`, Tokio's primitive that wakes all waiters at once.
pub fn parked(args: &Args) -> Outcome {
    struct Gate {
        open: Notify,
        all_done: Notify,
        arrived: AtomicU64,
        finished: AtomicU64,
    }
    let n = args.size(1_000_000);
    Ok(run(args, async move {
        let before = memory();
        let zero = AtomicU64::default;
        let gate = Arc::new(Gate {
            open: Notify::new(),
            all_done: Notify::new(),
            arrived: zero(),
            finished: zero(),
        });
        let start = Instant::now();
        for _ in 0..n {
            let gate = gate.clone();
            tokio::spawn(async move {
                let open = gate.open.notified();
                gate.arrived.fetch_add(1, Ordering::Relaxed);
                open.await;
                // AcqRel: the last one sees what all others did before they incremented the counter.
                if gate.finished.fetch_add(1, Ordering::AcqRel) + 1 == n {
                    gate.all_done.notify_one();
                }
            });
        }
        while gate.arrived.load(Ordering::Relaxed) < n {
            task::yield_now().await;
        }
        let spawned = start.elapsed();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let bytes = memory() - before;
        let start = Instant::now();
        gate.open.notify_waiters();
        gate.all_done.notified().await;
        Report::parked(n, spawned, start.elapsed(), bytes)
    }))
}

pub fn fib(args: &Args) -> Outcome {
    let n = args.size(25);
    let time = run(args, async move {
        black_box(fork(n).await);
        let start = Instant::now();
        for _ in 0..FIB_REPEAT {
            black_box(fork(n).await);
        }
        start.elapsed()
    });
    Ok(Report::new(fib_forks(n) * FIB_REPEAT, time))
}

fn fork(n: u64) -> impl Future<Output = u64> + Send {
    async move {
        if n < 2 {
            return n;
        }
        let left = tokio::spawn(fork(n - 1));
        // A future cannot contain itself, so the recursion needs a box.
        let right = Box::pin(fork(n - 2)).await;
        left.await.unwrap() + right
    }
}
