//! Group "block": blocking system calls. There are no hogs here, because Tokio does not preempt.

use crate::warm_then_time;
use compare_common::{Args, BLOCK_NAP, BLOCKERS, BURST_NAP, Outcome, Report};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::{task, time};

/// Every nap runs on Tokio's pool of blocking threads, as Tokio recommends.
pub fn blocking(args: &Args) -> Outcome {
    let naps = args.size(20);
    let time = warm_then_time(args, naps, |naps| async move {
        let sleeper = || {
            tokio::spawn(async move {
                for _ in 0..naps {
                    task::spawn_blocking(|| std::thread::sleep(BLOCK_NAP)).await.unwrap();
                }
            })
        };
        let sleepers: Vec<_> = (0..BLOCKERS).map(|_| sleeper()).collect();
        for sleeper in sleepers {
            sleeper.await.unwrap();
        }
    });
    Ok(Report::blocking(naps, time))
}

/// The pool of blocking threads may have one thread for each call; its default limit is 512.
pub fn blocking_burst(args: &Args) -> Outcome {
    let n = args.size(1000);
    let runtime = crate::builder(args).max_blocking_threads(n as usize).build().expect("runtime starts");
    let (time, late) = runtime.block_on(async { tokio::spawn(burst(n)).await.unwrap() });
    Ok(Report::blocking_burst(n, time, late))
}

async fn burst(n: u64) -> (Duration, Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let sleeper = tokio::spawn(worst_lateness(stop.clone()));
    time::sleep(BURST_NAP / 20).await;
    let start = Instant::now();
    let nap = || task::spawn_blocking(|| std::thread::sleep(BURST_NAP));
    let blocked: Vec<_> = (0..n).map(|_| tokio::spawn(async move { nap().await.unwrap() })).collect();
    for one in blocked {
        one.await.unwrap();
    }
    let time = start.elapsed();
    stop.store(true, Ordering::Relaxed);
    (time, sleeper.await.unwrap())
}

/// Does what `compare_common::worst_lateness` does, in a Tokio task.
async fn worst_lateness(stop: Arc<AtomicBool>) -> Duration {
    let nap = Duration::from_millis(1);
    let mut worst = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        time::sleep(nap).await;
        worst = worst.max(start.elapsed().saturating_sub(nap));
    }
    worst
}

/// `block_in_place` is the cheapest way to tell Tokio about a blocking call.
pub fn syscall_short(args: &Args) -> Outcome {
    let n = args.size(100_000);
    let time = warm_then_time(args, n, |n| async move {
        for _ in 0..n {
            // SAFETY: getppid takes no argument and accesses no memory of this process.
            task::block_in_place(|| unsafe { libc::syscall(libc::SYS_getppid) });
        }
    });
    Ok(Report::new(n, time))
}
