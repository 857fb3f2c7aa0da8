//! Group "block": hogs and blocking system calls.

use compare_common::{
    Args, BLOCK_NAP, BLOCKERS, BURST_NAP, BusyNeighbours, Counters, FAIR_HOGS_PER_P, HOGS_PER_P, HogRun,
    Outcome, Oversleep, Report, warm_then_time, worst_lateness,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub fn hog(args: &Args, hogs: usize) -> Outcome {
    let hogs = Arc::new(Counters::new(hogs));
    let n = args.size(200);
    let awake = Arc::new(Barrier::new(2));
    let sleeper = thread::spawn({
        let awake = awake.clone();
        move || {
            thread::sleep(Oversleep::NAP);
            awake.wait();
            Oversleep::collect(n, thread::sleep)
        }
    });
    awake.wait();
    let run = HogRun::begin(&hogs);
    let threads = start(&hogs);
    let report = sleeper.join().unwrap().report(&hogs, &run, args.procs, thread::sleep);
    stop(&hogs, threads);
    Ok(report)
}

pub fn hog_noisy(args: &Args) -> Outcome {
    let _neighbours = BusyNeighbours::start();
    hog(args, HOGS_PER_P * args.procs)
}

pub fn hog_first(args: &Args) -> Outcome {
    let hogs = Arc::new(Counters::new(HOGS_PER_P * args.procs));
    let n = args.size(200);
    let threads = start(&hogs);
    await_all(&hogs, threads.len());
    let run = HogRun::begin(&hogs);
    let sleeper = thread::spawn(move || Oversleep::collect(n, thread::sleep));
    let report = sleeper.join().unwrap().report(&hogs, &run, args.procs, thread::sleep);
    stop(&hogs, threads);
    Ok(report)
}

fn start(hogs: &Arc<Counters>) -> Vec<JoinHandle<()>> {
    let n = hogs.counts().len();
    (0..n)
        .map(|i| {
            let hogs = hogs.clone();
            thread::spawn(move || hogs.hog(i))
        })
        .collect()
}

fn await_all(hogs: &Counters, n: usize) {
    while hogs.started() < n {
        thread::yield_now();
    }
}

fn stop(hogs: &Counters, threads: Vec<JoinHandle<()>>) {
    hogs.stop();
    threads.into_iter().for_each(|h| h.join().unwrap());
}

pub fn blocking(args: &Args) -> Outcome {
    let naps = args.size(20);
    let time = warm_then_time(naps, |naps| {
        let sleepers: Vec<_> = (0..BLOCKERS)
            .map(|_| thread::spawn(move || (0..naps).for_each(|_| thread::sleep(BLOCK_NAP))))
            .collect();
        sleepers.into_iter().for_each(|h| h.join().unwrap());
    });
    Ok(Report::blocking(naps, time))
}

pub fn blocking_burst(args: &Args) -> Outcome {
    let n = args.size(1000);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let sleeper = thread::spawn(move || worst_lateness(&stopped, thread::sleep));
    thread::sleep(BURST_NAP / 20);
    let start = Instant::now();
    let blocked: Vec<_> = (0..n).map(|_| thread::spawn(|| thread::sleep(BURST_NAP))).collect();
    blocked.into_iter().for_each(|h| h.join().unwrap());
    let time = start.elapsed();
    stop.store(true, Ordering::Relaxed);
    Ok(Report::blocking_burst(n, time, sleeper.join().unwrap()))
}

pub fn syscall_short(args: &Args) -> Outcome {
    let n = args.size(2_000_000);
    let time = warm_then_time(n, |n| {
        for _ in 0..n {
            // SAFETY: getppid takes no argument and accesses no memory of this process.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
    });
    Ok(Report::new(n, time))
}

pub fn fairness(args: &Args) -> Outcome {
    let hogs = Arc::new(Counters::new(FAIR_HOGS_PER_P * args.procs));
    let threads = start(&hogs);
    await_all(&hogs, threads.len());
    let run = HogRun::begin(&hogs);
    thread::sleep(Duration::from_millis(args.size(3000)));
    let report = run.fairness(&hogs);
    stop(&hogs, threads);
    Ok(report)
}
