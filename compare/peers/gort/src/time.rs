//! Groups "chan" and "block": the workloads that need timers.

use compare_common::{
    Args, BusyNeighbours, Counters, FAIR_HOGS_PER_P, HOGS_PER_P, HogRun, Lateness, Lcg, Outcome, Oversleep,
};
use gort::JoinHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub fn timers(args: &Args) -> Outcome {
    let n = args.size(100_000);
    Ok(gort::run(move || {
        let late = Lateness::begin();
        let sleeper = |i| {
            gort::spawn(move || {
                let mut mine = 0;
                for want in Lcg::new(i).naps() {
                    let before = Instant::now();
                    gort::sleep(want);
                    mine += (before.elapsed() - want).as_nanos() as u64;
                }
                mine
            })
        };
        let sleepers: Vec<_> = (0..n).map(sleeper).collect();
        let total = sleepers.into_iter().map(|h| h.join().unwrap()).sum();
        late.report(n, total)
    }))
}

pub fn hog(args: &Args, hogs: usize) -> Outcome {
    let (procs, n) = (args.procs, args.size(200));
    Ok(gort::run(move || {
        let hogs = Arc::new(Counters::new(hogs));
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
        let report = sleeper.join().unwrap().report(&hogs, &run, procs, gort::sleep);
        stop(&hogs, handles);
        report
    }))
}

pub fn hog_noisy(args: &Args) -> Outcome {
    let _neighbours = BusyNeighbours::start();
    hog(args, HOGS_PER_P * args.procs)
}

pub fn hog_first(args: &Args) -> Outcome {
    let (procs, n) = (args.procs, args.size(200));
    Ok(gort::run(move || {
        let hogs = Arc::new(Counters::new(HOGS_PER_P * procs));
        let handles = start(&hogs);
        yield_until(|| hogs.started() == handles.len());
        let run = HogRun::begin(&hogs);
        let sleeper = gort::spawn(move || Oversleep::collect(n, gort::sleep));
        let report = sleeper.join().unwrap().report(&hogs, &run, procs, gort::sleep);
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
