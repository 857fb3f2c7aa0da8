//! The second part: all work starts on one processor, and the others steal it.
//!
//! One goroutine spawns waves of jobs that are 1 to 16 times as long as the shortest. A spawned goroutine
//! goes to the queue of the processor that the spawning goroutine runs on. A wave fits into that queue, so
//! the other processors get work only by stealing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gort::context::Context;
use gort::runtime::{max_procs, processors, stats};

use super::board::{Board, Part};
use super::figures::Balance;
use super::jobs::{count_primes, width_of_a_millisecond};
use super::text::thousands;

/// The number of jobs in a wave. It is below 256, the length of a processor's queue: more jobs would overflow
/// to the global queue.
const WAVE: u64 = 192;

/// How much longer than planned this part waits for the first steal.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(ctx: &Context, time: Duration, board: &Board) -> Balance {
    let jobs = Arc::new(AtomicU64::new(0));
    let before = stats();
    let stolen_before: Vec<u64> = processors().iter().map(|p| p.stolen).collect();
    board.begin(Part::Balance, time, {
        let (jobs, steals) = (jobs.clone(), before.steals);
        move || {
            let steals = stats().steals - steals;
            format!("{} jobs, {} steals", thousands(jobs.load(Relaxed)), thousands(steals))
        }
    });
    let unit = (width_of_a_millisecond() / 16).max(1);
    let (begin, cpu_before, busy) = (Instant::now(), cpu_time(), board.busy_since());
    // On a very busy machine it may take a while until the thread of another processor runs at all.
    let shared = || max_procs() == 1 || stats().stolen > before.stolen || begin.elapsed() > time + PATIENCE;
    while (begin.elapsed() < time || !shared()) && ctx.err().is_none() {
        gort::scope(|scope| {
            for n in 0..WAVE {
                let jobs = jobs.clone();
                scope.spawn(move || {
                    // One job in eight is 16 times as long as the shortest, the others 1 to 7 times.
                    let times = if n % 8 == 0 { 16 } else { n % 8 };
                    std::hint::black_box(count_primes(100_000, 100_000 + unit * times));
                    jobs.fetch_add(1, Relaxed);
                });
            }
        });
    }
    let (wall, cpu) = (begin.elapsed(), cpu_time() - cpu_before);
    let after = stats();
    board.end(Part::Balance);
    let stolen_before = stolen_before.into_iter().chain(std::iter::repeat(0));
    Balance {
        jobs: jobs.load(Relaxed),
        wall_ms: wall.as_secs_f64() * 1000.0,
        cpu_ms: cpu.as_secs_f64() * 1000.0,
        parallel: cpu.as_secs_f64() / wall.as_secs_f64(),
        steals: after.steals - before.steals,
        stolen: after.stolen - before.stolen,
        stolen_by: processors().iter().zip(stolen_before).map(|(p, before)| p.stolen - before).collect(),
        busy: busy.shares(),
    }
}

/// The CPU time that this process has used. (The clock of a thread says nothing about a goroutine, which
/// may go on on another one.)
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes only to the struct, which is a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
