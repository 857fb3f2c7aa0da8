//! The third part: loads that starve other goroutines on most runtimes. A goroutine that sleeps for 1 ms at a
//! time measures how late it wakes beside them. Without preemption it would not wake before the load ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gort::chan;
use gort::context::Context;
use gort::runtime::{max_procs, stats};
use gort::sync::WaitGroup;

use super::board::{Board, Part};
use super::figures::{Blocking, Crowd, Hogs};
use super::sleeper::{Worst, nap_for};
use super::text::{micros, thousands};

/// Endless loops, two for each processor, that never call into gort.
pub(crate) fn hogs(ctx: &Context, time: Duration, board: &Board) -> Hogs {
    let count = 2 * max_procs();
    let stop = Arc::new(AtomicBool::new(false));
    let before = stats();
    let worst = Worst::default();
    board.begin(Part::Hogs, time, {
        let worst = worst.clone();
        move || format!("{count} loops; 1 ms sleeper ≤ {} late", micros(worst.micros()))
    });
    let begin = Instant::now();
    let running: Vec<_> = (0..count)
        .map(|_| {
            let stop = stop.clone();
            gort::spawn(move || {
                let mut turns = 0u64;
                while !stop.load(Relaxed) {
                    turns = std::hint::black_box(turns + 1);
                }
                turns
            })
        })
        .collect();
    let sleeper = nap_for(ctx, time, &worst);
    stop.store(true, Relaxed);
    let turns: Vec<u64> = running.into_iter().filter_map(|hog| hog.join().ok()).collect();
    let after = stats();
    board.end(Part::Hogs);
    let fair = turns.iter().sum::<u64>() as f64 / count as f64;
    Hogs {
        hogs: count,
        seconds: begin.elapsed().as_secs_f64(),
        sleeper,
        preempted: after.preempted - before.preempted,
        preempted_by_signal: after.preempted_by_signal - before.preempted_by_signal,
        least_share: turns.iter().copied().min().unwrap_or(0) as f64 / fair.max(1.0),
    }
}

/// The duration of one blocking call.
const CALL: Duration = Duration::from_millis(10);

/// Goroutines that block their threads with a plain `std::thread::sleep`, without telling gort.
pub(crate) fn blocking(ctx: &Context, time: Duration, board: &Board) -> Blocking {
    let callers = (32 * max_procs()).min(256);
    let stop = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicU64::new(0));
    let before = stats();
    let worst = Worst::default();
    board.begin(Part::Blocking, time, {
        let (calls, worst) = (calls.clone(), worst.clone());
        move || {
            let calls = thousands(calls.load(Relaxed));
            format!("{calls} calls; 1 ms sleeper ≤ {} late", micros(worst.micros()))
        }
    });
    let begin = Instant::now();
    let group = WaitGroup::new();
    for _ in 0..callers {
        let (stop, calls) = (stop.clone(), calls.clone());
        group.go(move || {
            loop {
                std::thread::sleep(CALL);
                calls.fetch_add(1, Relaxed);
                if stop.load(Relaxed) {
                    break;
                }
            }
        });
    }
    let sleeper = nap_for(ctx, time, &worst);
    let (took, meanwhile) = (begin.elapsed(), calls.load(Relaxed));
    let after = stats();
    stop.store(true, Relaxed);
    group.wait();
    board.end(Part::Blocking);
    Blocking {
        callers,
        call_ms: CALL.as_secs_f64() * 1000.0,
        calls: meanwhile,
        calls_in_all: calls.load(Relaxed),
        seconds: took.as_secs_f64(),
        at_once: meanwhile as f64 * CALL.as_secs_f64() / took.as_secs_f64(),
        sleeper,
        hand_offs: after.hand_offs - before.hand_offs,
        threads: after.threads.alive,
    }
}

/// An upper estimate of the memory of a parked goroutine, in bytes, to decide how many are affordable.
const BYTES_EACH: usize = 8 << 10;

/// Very many goroutines that wait for the same thing.
pub(crate) fn crowd(ctx: &Context, asked: usize, time: Duration, board: &Board) -> Crowd {
    let (affordable, mut fewer_because) = afford(asked);
    let woken = Arc::new(AtomicUsize::new(0));
    let parked = Arc::new(AtomicUsize::new(0));
    let worst = Worst::default();
    board.begin(Part::Crowd, time + Duration::from_micros(8) * asked as u32, {
        let (parked, woken, worst) = (parked.clone(), woken.clone(), worst.clone());
        move || {
            let parked = thousands(parked.load(Relaxed) as u64);
            match woken.load(Relaxed) {
                0 => format!("{parked} parked; 1 ms sleeper ≤ {} late", micros(worst.micros())),
                n => format!("{parked} parked, {} woken", thousands(n as u64)),
            }
        }
    });
    let memory = resident();
    let (open, gate) = chan::bounded::<()>(0);
    let group = Arc::new(WaitGroup::new());
    let begin = Instant::now();
    let mut count = 0;
    while count < affordable && ctx.err().is_none() {
        match join_crowd(&group, &gate, &parked, &woken) {
            Ok(()) => count += 1,
            Err(error) => {
                fewer_because = Some(error.to_string());
                break;
            }
        }
    }
    // Each goroutine counts itself just before it waits. After this loop all of them have run and have a
    // stack.
    while parked.load(Relaxed) < count {
        gort::yield_now();
    }
    let spawn = begin.elapsed();
    let bytes = resident().saturating_sub(memory);
    let sleeper = nap_for(ctx, time, &worst);
    let threads = stats().threads.alive;
    let begin = Instant::now();
    drop(open);
    group.wait();
    let wake = begin.elapsed();
    board.end(Part::Crowd);
    if ctx.err().is_some() && count < asked {
        fewer_because = Some("interrupted".to_string());
    }
    Crowd {
        asked,
        goroutines: count,
        fewer_because,
        spawn_ms: spawn.as_secs_f64() * 1000.0,
        wake_ms: wake.as_secs_f64() * 1000.0,
        woken: woken.load(Relaxed),
        bytes_each: bytes as f64 / count.max(1) as f64,
        threads,
        sleeper,
    }
}

/// Starts one more goroutine, which waits until the gate's sender is dropped.
fn join_crowd(
    group: &Arc<WaitGroup>,
    gate: &chan::Receiver<()>,
    parked: &Arc<AtomicUsize>,
    woken: &Arc<AtomicUsize>,
) -> io::Result<()> {
    let (left, gate, parked, woken) = (group.clone(), gate.clone(), parked.clone(), woken.clone());
    group.add(1);
    let spawned = gort::Builder::new().spawn(move || {
        parked.fetch_add(1, Relaxed);
        let _closed = gate.recv();
        woken.fetch_add(1, Relaxed);
        left.done();
    });
    if spawned.is_err() {
        group.done();
    }
    spawned.map(drop)
}

/// How many of the `asked` goroutines fit into half of the free memory, and the reason if not all of them do.
fn afford(asked: usize) -> (usize, Option<String>) {
    let free = available().unwrap_or(usize::MAX);
    let most = free / 2 / BYTES_EACH;
    if asked <= most {
        return (asked, None);
    }
    (most.max(1), Some(format!("{} MB of memory are free", free >> 20)))
}

/// The memory, in bytes, that is available on this machine and in this control group.
fn available() -> Option<usize> {
    let number = |file: &str| std::fs::read_to_string(file).ok()?.trim().parse::<usize>().ok();
    let group = number("/sys/fs/cgroup/memory.max")
        .map(|most| most.saturating_sub(number("/sys/fs/cgroup/memory.current").unwrap_or(0)));
    [machine_available(), group].into_iter().flatten().min()
}

fn machine_available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<usize>().ok()? << 10)
}

/// The memory, in bytes, that the process uses, including page tables.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    };
    (kilobytes("VmRSS:").unwrap_or(0) + kilobytes("VmPTE:").unwrap_or(0)) << 10
}
