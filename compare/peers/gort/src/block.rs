//! Group "block": hogs and blocking system calls.

use crate::warm_then_time;
use compare_common::{
    Args, BLOCK_NAP, BLOCKERS, Counters, FAIR_HOGS_PER_P, HOGS_PER_P, HogRun, Outcome, Oversleep, Report,
};
use gort::JoinHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub fn hog(args: &Args) -> Outcome {
    let (procs, n) = (args.procs, args.size(200));
    Ok(gort::run(move || {
        let hogs = Arc::new(Counters::new(HOGS_PER_P * procs));
        let awake = Arc::new(AtomicBool::new(false));
        let sleeper = gort::spawn({
            let awake = awake.clone();
            move || {
                gort::sleep(Oversleep::NAP);
                awake.store(true, Ordering::Relaxed);
                Oversleep::collect(n, gort::sleep)
            }
        });
        yield_until(|| awake.load(Ordering::Relaxed));
        let run = HogRun::begin(&hogs);
        let handles = start(&hogs);
        let report = sleeper.join().unwrap().report(&run, procs);
        stop(&hogs, handles);
        report
    }))
}

pub fn hog_first(args: &Args) -> Outcome {
    let (procs, n) = (args.procs, args.size(200));
    Ok(gort::run(move || {
        let hogs = Arc::new(Counters::new(HOGS_PER_P * procs));
        let handles = start(&hogs);
        yield_until(|| hogs.started() == handles.len());
        let run = HogRun::begin(&hogs);
        let sleeper = gort::spawn(move || Oversleep::collect(n, gort::sleep));
        let report = sleeper.join().unwrap().report(&run, procs);
        stop(&hogs, handles);
        report
    }))
}

fn start(hogs: &Arc<Counters>) -> Vec<JoinHandle<()>> {
    let hog = |i| {
        let hogs = hogs.clone();
        gort::spawn(move || hogs.hog(i))
    };
    (0..hogs.counts().len()).map(hog).collect()
}

fn stop(hogs: &Counters, handles: Vec<JoinHandle<()>>) {
    hogs.stop();
    handles.into_iter().for_each(|h| h.join().unwrap());
}

fn yield_until(done: impl Fn() -> bool) {
    while !done() {
        gort::yield_now();
    }
}

/// Tells the scheduler that the calls block.
pub fn blocking(args: &Args) -> Outcome {
    naps(args, || gort::blocking(|| thread::sleep(BLOCK_NAP)))
}

/// Leaves it to the scheduler to find out.
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

pub fn syscall_short(args: &Args) -> Outcome {
    let n = args.size(2_000_000);
    let time = warm_then_time(n, |n| {
        for _ in 0..n {
            // SAFETY: getppid takes no argument and touches no memory of ours.
            gort::blocking(|| unsafe { libc::syscall(libc::SYS_getppid) });
        }
    });
    Ok(Report::new(n, time))
}

pub fn fairness(args: &Args) -> Outcome {
    let (procs, time) = (args.procs, Duration::from_millis(args.size(3000)));
    Ok(gort::run(move || {
        let hogs = Arc::new(Counters::new(FAIR_HOGS_PER_P * procs));
        let handles = start(&hogs);
        yield_until(|| hogs.started() == handles.len());
        let run = HogRun::begin(&hogs);
        gort::sleep(time);
        let report = run.fairness(&hogs);
        stop(&hogs, handles);
        report
    }))
}
