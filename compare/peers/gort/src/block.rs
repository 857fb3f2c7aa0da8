//! Group "block": the workloads that need `gort::blocking`.

use crate::warm_then_time;
use compare_common::{Args, BLOCK_NAP, BLOCKERS, BURST_NAP, Outcome, Report, worst_lateness};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// Tells the scheduler that the calls block.
pub fn blocking(args: &Args) -> Outcome {
    naps(args, || gort::blocking(|| thread::sleep(BLOCK_NAP)))
}

/// Does not tell the scheduler, which has to notice by itself that the calls block.
pub fn blocking_unmarked(args: &Args) -> Outcome {
    naps(args, || thread::sleep(BLOCK_NAP))
}

fn naps(args: &Args, nap: fn()) -> Outcome {
    let naps = args.size(20);
    let time = warm_then_time(naps, move |naps| {
        let sleeper = || gort::spawn(move || (0..naps).for_each(|_| nap()));
        let sleepers: Vec<_> = (0..BLOCKERS).map(|_| sleeper()).collect();
        sleepers.into_iter().for_each(|h| h.join().unwrap());
    });
    Ok(Report::blocking(naps, time))
}

/// Does not tell the scheduler, either. Threads are started within the measured time.
pub fn blocking_burst(args: &Args) -> Outcome {
    let n = args.size(1000);
    let (time, late) = gort::run(move || {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let sleeper = gort::spawn(move || worst_lateness(&stopped, gort::sleep));
        gort::sleep(BURST_NAP / 20);
        let start = Instant::now();
        let blocked: Vec<_> = (0..n).map(|_| gort::spawn(|| thread::sleep(BURST_NAP))).collect();
        blocked.into_iter().for_each(|h| h.join().unwrap());
        let time = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        (time, sleeper.join().unwrap())
    });
    Ok(Report::blocking_burst(n, time, late))
}

pub fn syscall_short(args: &Args) -> Outcome {
    let n = args.size(2_000_000);
    let time = warm_then_time(n, |n| {
        for _ in 0..n {
            // SAFETY: getppid takes no argument and accesses no memory of this process.
            gort::blocking(|| unsafe { libc::syscall(libc::SYS_getppid) });
        }
    });
    Ok(Report::new(n, time))
}
