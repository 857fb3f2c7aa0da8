//! The CPU time of goroutines and labels: the sums are the kernel's, and each goroutine gets its part.
//!
//! Each test has a process of its own, because it compares with what the whole process has used.

#[path = "../common/mod.rs"]
mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Procs, alone, cpu_time, join_all, named, patience};
use gort::runtime::{CpuTime, dump, stats};
use gort::with_labels;

const MILLI: Duration = Duration::from_millis(1);

/// The CPU time of this process, by getrusage.
fn used() -> Duration {
    // SAFETY: the kernel fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &raw mut usage), 0);
        usage
    };
    let of = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn all(cpu: &CpuTime) -> Duration {
    cpu.goroutines + cpu.runtime + cpu.unassigned
}

/// What goroutines with this label have used.
fn labelled(key: &str, value: &str) -> Duration {
    let with = |labels: &gort::Labels| labels.get(key) == Some(value);
    stats().cpu.by_labels.iter().filter(|(labels, _)| with(labels)).map(|(_, time)| *time).sum()
}

/// Computes, without a call into gort or the kernel.
fn compute(rounds: u64) {
    (0..rounds).for_each(|n| {
        black_box(n);
    });
}

/// Computes until the process has used `amount` more.
fn compute_for(amount: Duration) {
    let end = cpu_time() + amount;
    while cpu_time() < end {
        compute(10_000);
    }
}

/// Waits until the condition holds. Unlike `until` it uses hardly any CPU time itself.
#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < patience(), "gave up waiting until {what}: {:?}", stats().cpu);
        std::thread::sleep(5 * MILLI);
    }
}

/// Goroutines of all kinds, until the flag is set.
fn work_of_all_kinds(stop: &Arc<AtomicBool>) -> Vec<gort::JoinHandle<()>> {
    let start = |name: &'static str, f: fn(&AtomicBool)| {
        let stop = stop.clone();
        let builder = gort::Builder::new().name(name.into()).label("kind", name);
        builder
            .spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    f(&stop)
                }
            })
            .unwrap()
    };
    vec![
        start("hog", |_| compute(10_000_000)),
        start("yields", |_| {
            compute(100);
            gort::yield_now();
        }),
        start("talks", |_| {
            let (sender, receiver) = gort::chan::bounded::<u32>(0);
            gort::go!((0..100).for_each(|n| sender.send(n).unwrap()));
            assert_eq!(receiver.iter().count(), 100);
        }),
        start("spawns", |_| join_all((0..10).map(|_| gort::spawn(|| compute(1000))))),
        start("blocks", |_| gort::blocking(|| compute(1_000_000))),
        start("sleeps", |_| {
            compute(10_000);
            gort::sleep(MILLI);
        }),
        start("sleeps unmarked", |_| {
            std::thread::sleep(MILLI);
            compute(1_000_000);
        }),
        start("bound", |_| {
            let _bound = gort::runtime::os_thread_guard();
            compute(10_000);
            gort::yield_now();
        }),
        start("system calls", |_| drop(std::fs::read("/proc/self/stat"))),
    ]
}

#[test]
fn the_sum_is_what_the_kernel_says() {
    if !alone("the_sum_is_what_the_kernel_says") {
        return;
    }
    let _two = Procs::set(2);
    let stop = Arc::new(AtomicBool::new(false));
    let (before, reported_before) = (used(), stats().cpu);
    let work = work_of_all_kinds(&stop);
    until("three seconds are used", || used() - before >= Duration::from_secs(3));
    // In the time between the two readings both grow, so the exact sum lies between the kernel's before and
    // after. A thread that the machine holds up between two looks makes one reading wrong, not all.
    let (mut reported, mut sum) = (stats().cpu, Duration::ZERO);
    until("the sum holds while goroutines work", || {
        let least = used() - before;
        reported = stats().cpu;
        let most = used() - before;
        sum = all(&reported) - all(&reported_before);
        sum >= least.mul_f64(0.98) && sum <= most.mul_f64(1.02)
    });
    // Little is nobody's, and the labels of living and ended goroutines make up what goroutines have used.
    assert!(reported.unassigned <= sum.mul_f64(0.05), "{reported:?}");
    let labels: Duration = reported.by_labels.iter().map(|(_, time)| *time).sum();
    let goroutines = reported.goroutines - reported_before.goroutines;
    assert!(
        labels <= goroutines.mul_f64(1.02) && labels >= goroutines.mul_f64(0.9),
        "{labels:?}: {reported:?}"
    );
    stop.store(true, Ordering::Relaxed);
    join_all(work);
    until("the sum holds at the end", || {
        let (least, reported, most) = (used() - before, stats().cpu, used() - before);
        let sum = all(&reported) - all(&reported_before);
        sum >= least.mul_f64(0.98) && sum <= most.mul_f64(1.02)
    });
}

/// What a goroutine does, in words, and a function that does it until so much CPU time is used.
type Kind = (&'static str, fn(Duration));

/// Whatever a goroutine does with its P and its thread, what it has used is charged to its label. One kind
/// after the other computes alone, so the kernel's time of the process is nearly all its own.
#[test]
fn every_kind_of_goroutine_is_charged_with_what_it_uses() {
    if !alone("every_kind_of_goroutine_is_charged_with_what_it_uses") {
        return;
    }
    let _two = Procs::set(2);
    let amount = 300 * MILLI;
    let kinds: [Kind; 8] = [
        ("computes", compute_for),
        ("calls", |amount| gort::blocking(|| compute_for(amount))),
        ("calls, with labels of its own", |amount| {
            gort::blocking(|| {
                compute_for(amount / 2);
                with_labels([("other", "1")], || compute_for(amount / 2));
            });
        }),
        ("lost its P", |amount| {
            std::thread::sleep(50 * MILLI);
            compute_for(amount);
        }),
        ("bound", |amount| {
            let _bound = gort::runtime::os_thread_guard();
            let end = cpu_time() + amount;
            while cpu_time() < end {
                compute(100_000);
                gort::yield_now();
            }
        }),
        ("has children", |amount| {
            let end = cpu_time() + amount;
            while cpu_time() < end {
                gort::spawn(|| compute(100_000)).join().unwrap();
            }
        }),
        ("sleeps", |amount| {
            let end = cpu_time() + amount;
            while cpu_time() < end {
                compute(1_000_000);
                gort::sleep(MILLI);
            }
        }),
        ("idle for long in between", |amount| {
            let end = cpu_time() + amount;
            while cpu_time() < end {
                compute_for(5 * MILLI);
                gort::sleep(15 * MILLI); // sysmon falls asleep
            }
        }),
    ];
    for (kind, f) in kinds {
        let (before, runtime_before) = (cpu_time(), stats().cpu.runtime);
        // On a busy machine there are few ticks, and so a large deviation: then it is repeated, and the
        // deviation of the sum is less. The children wake a thread each time, which spins: that is the
        // runtime's part.
        until(&format!("the one that {kind} is charged with what it uses"), || {
            let builder = gort::Builder::new().label("kind", kind);
            builder.spawn(move || f(amount)).unwrap().join().unwrap();
            let (used, charged) = (cpu_time() - before, labelled("kind", kind));
            let own = used.saturating_sub(stats().cpu.runtime - runtime_before);
            charged >= own.mul_f64(0.85) && charged <= used.mul_f64(1.02) && charged >= used / 2
        });
    }
    let (outer, inner) = (labelled("kind", "calls, with labels of its own"), labelled("other", "1"));
    assert!(inner >= outer.mul_f64(0.4) && inner <= outer.mul_f64(0.6), "{inner:?} of {outer:?}");
}

/// Two goroutines take turns on one P, one with slices ten times as long. Each measures its own time. The
/// parts that they are charged with come as close to that as one wants, if one waits: the charges have no
/// bias.
#[test]
fn long_and_short_slices_get_their_parts() {
    if !alone("long_and_short_slices_get_their_parts") {
        return;
    }
    let _one = Procs::set(1);
    let stop = Arc::new(AtomicBool::new(false));
    let own: [Arc<AtomicU64>; 2] = Default::default();
    let start = |name: &'static str, rounds: u64, own: &Arc<AtomicU64>| {
        let (stop, own) = (stop.clone(), own.clone());
        let work = move || {
            while !stop.load(Ordering::Relaxed) {
                // With one P, nobody else of this process computes meanwhile.
                let before = cpu_time();
                compute(rounds);
                own.fetch_add((cpu_time() - before).as_nanos() as u64, Ordering::Relaxed);
                gort::yield_now();
            }
        };
        gort::Builder::new().name(name.into()).label("slices", name).spawn(work).unwrap()
    };
    let all = [start("long", 20_000, &own[0]), start("short", 2_000, &own[1])];
    let mut parts = (0.0, 0.0);
    until("both parts agree", || {
        let own = own.each_ref().map(|nanos| nanos.load(Ordering::Relaxed) as f64);
        let charged = ["long", "short"].map(|name| labelled("slices", name).as_secs_f64());
        parts = (own[1] / (own[0] + own[1]), charged[1] / (charged[0] + charged[1]));
        // With n ticks, the standard deviation of a part of 0.1 is 0.3 / sqrt(n).
        charged[0] + charged[1] >= 1.0 && (parts.1 - parts.0).abs() < 0.02
    });
    assert!(parts.0 < 0.25, "the slices do not differ: {parts:?}");
    stop.store(true, Ordering::Relaxed);
    join_all(all);
}

#[test]
fn dumps_tell_the_time_of_each_goroutine() {
    if !alone("dumps_tell_the_time_of_each_goroutine") {
        return;
    }
    let _two = Procs::set(2);
    let (go_on, wait) = gort::chan::bounded::<()>(0);
    let lazy = named("lazy", move || wait.recv().unwrap_err());
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let hog = named("hog", move || while !stopped.load(Ordering::Relaxed) {});
    let time = |name: &str| dump().goroutines().iter().find(|g| g.name() == Some(name)).unwrap().cpu_time();
    let mut last = Duration::ZERO;
    until("it has used half a second", || {
        let now = time("hog");
        assert!(now + 5 * MILLI >= last && now <= cpu_time(), "{last:?}, then {now:?}");
        last = now;
        now >= 500 * MILLI
    });
    assert!(time("lazy") <= 50 * MILLI);
    stop.store(true, Ordering::Relaxed);
    drop(go_on);
    hog.join().unwrap();
    lazy.join().unwrap();
}

/// What is reported never becomes less, as counters of monitoring systems demand.
#[test]
fn reported_times_only_grow() {
    if !alone("reported_times_only_grow") {
        return;
    }
    let _two = Procs::set(2);
    let stop = Arc::new(AtomicBool::new(false));
    let work = work_of_all_kinds(&stop);
    let mut last = stats().cpu;
    let end = cpu_time() + Duration::from_secs(2);
    while cpu_time() < end {
        let now = stats().cpu;
        assert!(now.goroutines >= last.goroutines && now.runtime >= last.runtime, "{last:?}, then {now:?}");
        for (labels, before) in &last.by_labels {
            let found = now.by_labels.iter().find(|(other, _)| other == labels);
            assert!(found.is_some_and(|(_, time)| time >= before), "{labels}: {before:?}, then {found:?}");
        }
        last = now;
    }
    stop.store(true, Ordering::Relaxed);
    join_all(work);
}
