//! Clocks, memory, percentiles and the calculations that several workloads share.

use crate::Report;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs `body` with a tenth of `size` to warm up, then with all of it, and returns the time of the second
/// run.
pub fn warm_then_time(size: u64, mut body: impl FnMut(u64)) -> Duration {
    body((size / 10).max(1));
    let start = Instant::now();
    body(size);
    start.elapsed()
}

/// Resident memory and page tables of this process, in bytes.
pub fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    field_kb(&status, "VmRSS:") * 1024 + field_kb(&status, "VmPTE:") * 1024
}

fn field_kb(status: &str, name: &str) -> u64 {
    let line = status.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("no {name} in status"));
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("odd line {line:?}"))
}

/// CPU time that all threads of this process have used so far, in nanoseconds.
pub fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to; the clock id is a constant that every Linux has.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0, "no process CPU clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How often the kernel has switched from a thread of this process to something else so far.
pub fn context_switches() -> u64 {
    // SAFETY: all zeroes is a valid value, and the kernel only writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}

/// Number of nodes of the skynet tree with `leaves` leaves (a power of ten), the root included.
pub fn skynet_nodes(leaves: u64) -> u64 {
    if leaves <= 1 { 1 } else { leaves + skynet_nodes(leaves / 10) }
}

/// The sum that a skynet tree with `leaves` leaves must return.
pub fn skynet_sum(leaves: u64) -> u64 {
    leaves * (leaves - 1) / 2
}

/// Number of forks that a fork-join `fib(n)` makes.
pub fn fib_forks(n: u64) -> u64 {
    if n < 2 { 0 } else { 1 + fib_forks(n - 1) + fib_forks(n - 2) }
}

/// The `n`th prime; the first is 2.
pub fn nth_prime(n: u64) -> u64 {
    let mut primes: Vec<u64> = Vec::with_capacity(n as usize);
    let mut candidate = 2;
    while (primes.len() as u64) < n {
        if primes.iter().take_while(|&&p| p * p <= candidate).all(|p| candidate % p != 0) {
            primes.push(candidate);
        }
        candidate += 1;
    }
    candidate - 1
}

/// Number of messages that a sieve of `n` primes sends: each number passes the filters of all primes up to
/// its smallest factor.
pub fn sieve_messages(n: u64) -> u64 {
    let mut primes: Vec<u64> = Vec::with_capacity(n as usize);
    let mut messages = 0;
    for v in 2..=nth_prime(n) {
        let passed = primes.iter().take_while(|&&p| p * p <= v).position(|p| v % p == 0);
        messages += 1 + passed.unwrap_or(primes.len()) as u64;
        if passed.is_none() {
            primes.push(v);
        }
    }
    messages
}

/// A small random number generator that yields the same numbers in every peer (Knuth's MMIX constants).
pub struct Lcg(u64);

impl Lcg {
    /// Starts from `seed`.
    pub fn new(seed: u64) -> Lcg {
        Lcg(seed)
    }

    /// The next number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        low + (self.0 >> 33) % (high - low + 1)
    }

    /// The durations of a sleeper's naps in `timers`: 1 to 100 ms each.
    pub fn naps(&mut self) -> impl Iterator<Item = Duration> {
        (0..SLEEPERS_REPEAT).map(|_| Duration::from_micros(self.between(1000, 100_000)))
    }
}

/// The number of goroutines that `spawn_join` starts before it joins them.
pub const SPAWN_BATCH: u64 = 1000;

/// How often `fib` computes its number.
pub const FIB_REPEAT: u64 = 8;

/// The number of goroutines that contend for the lock in `mutex` and `rwlock`.
pub const LOCKERS: u64 = 100;

/// The number of goroutines that the token of `ring` passes.
pub const RING: u64 = 1000;

/// How often each sleeper of `timers` sleeps.
pub const SLEEPERS_REPEAT: u64 = 10;

/// The number of goroutines that sleep in the kernel at once in `blocking`.
pub const BLOCKERS: u64 = 64;

/// How long each sleep of `blocking` lasts.
pub const BLOCK_NAP: Duration = Duration::from_millis(10);

/// How long each call of `blocking_burst` blocks.
pub const BURST_NAP: Duration = Duration::from_millis(100);

/// Sleeps 1 ms at a time until `stop` is set. Returns by how much it was late at worst.
pub fn worst_lateness(stop: &AtomicBool, sleep: impl Fn(Duration)) -> Duration {
    let nap = Duration::from_millis(1);
    let mut worst = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        sleep(nap);
        worst = worst.max(start.elapsed().saturating_sub(nap));
    }
    worst
}

/// Endless loops ("hogs") per P in `hog` and `hog_first`.
pub const HOGS_PER_P: usize = 2;

/// Endless loops in `hogs-1000`.
pub const HOG_CROWD: usize = 1000;

/// Other processes that compute without end, one for each core; they end with this value.
pub struct BusyNeighbours(Vec<std::process::Child>);

impl BusyNeighbours {
    /// Starts them.
    pub fn start() -> BusyNeighbours {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let neighbour = |_| {
            let shell = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
            shell.expect("a shell can be started")
        };
        BusyNeighbours((0..cores).map(neighbour).collect())
    }
}

impl Drop for BusyNeighbours {
    fn drop(&mut self) {
        for neighbour in &mut self.0 {
            let _it_has_ended = neighbour.kill().and_then(|()| neighbour.wait());
        }
    }
}

/// Endless loops per P in `fairness`.
pub const FAIR_HOGS_PER_P: usize = 4;

/// One counter for each hog, on separate cache lines so that the hogs do not slow each other down.
pub struct Counters {
    slots: Vec<Slot>,
    stop: AtomicBool,
    started: AtomicU64,
}

#[repr(align(128))]
struct Slot(AtomicU64);

impl Counters {
    /// Counters for `hogs` hogs.
    pub fn new(hogs: usize) -> Counters {
        let slots = (0..hogs).map(|_| Slot(AtomicU64::new(0))).collect();
        Counters { slots, stop: AtomicBool::new(false), started: AtomicU64::new(0) }
    }

    /// The body of hog `i`: counts until told to stop and never calls the runtime.
    pub fn hog(&self, i: usize) {
        self.started.fetch_add(1, Ordering::Relaxed);
        let mut count = 0u64;
        while !self.stop.load(Ordering::Relaxed) {
            count += 1;
            self.slots[i].0.store(count, Ordering::Relaxed);
        }
    }

    /// Ends all hogs.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// How many hogs have run at all.
    pub fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed) as usize
    }

    /// The counts as they are now.
    pub fn counts(&self) -> Vec<u64> {
        self.slots.iter().map(|slot| slot.0.load(Ordering::Relaxed)).collect()
    }
}

/// Measures the CPU time and the counts of hogs, from the moment of its creation.
pub struct HogRun {
    start: Instant,
    cpu: u64,
    counts: Vec<u64>,
}

impl HogRun {
    /// Starts to measure `hogs`.
    pub fn begin(hogs: &Counters) -> HogRun {
        HogRun { start: Instant::now(), cpu: cpu_ns(), counts: hogs.counts() }
    }

    /// The CPU time that the process has used, as a share of what `procs` Ps could have used.
    fn cpu_share(&self, procs: usize) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let possible = self.start.elapsed().as_nanos() as f64 * procs.min(cores) as f64;
        (cpu_ns() - self.cpu) as f64 / possible
    }

    /// How far each hog has counted since the beginning.
    fn made(&self, hogs: &Counters) -> Vec<u64> {
        hogs.counts().iter().zip(&self.counts).map(|(now, then)| now - then).collect()
    }

    /// How far all hogs together count in a second.
    fn speed(&self, hogs: &Counters) -> f64 {
        self.made(hogs).iter().sum::<u64>() as f64 / self.start.elapsed().as_secs_f64()
    }

    /// The report of `fairness`: the largest deviation of a hog from an equal share.
    pub fn fairness(&self, hogs: &Counters) -> Report {
        let made = self.made(hogs);
        let fair = made.iter().sum::<u64>() as f64 / made.len() as f64;
        let worst = made.iter().map(|&n| (n as f64 - fair).abs() / fair).fold(0.0, f64::max);
        Report::new(made.len() as u64, self.start.elapsed()).with("deviation", worst)
    }
}

/// Wall and CPU time of a run of `timers`.
pub struct Lateness {
    start: Instant,
    cpu: u64,
}

impl Lateness {
    /// Starts to measure.
    pub fn begin() -> Lateness {
        Lateness { start: Instant::now(), cpu: cpu_ns() }
    }

    /// The report for `sleepers` sleepers that were late by `late_ns` in total.
    pub fn report(&self, sleepers: u64, late_ns: u64) -> Report {
        let sleeps = sleepers * SLEEPERS_REPEAT;
        Report::new(sleeps, self.start.elapsed())
            .with("late_ns", late_ns as f64 / sleeps as f64)
            .with("cpu_ns", (cpu_ns() - self.cpu) as f64 / sleeps as f64)
    }
}

/// The times by which a sleeper overslept, in nanoseconds.
#[derive(Default)]
pub struct Oversleep(Vec<u64>);

impl Oversleep {
    /// The longest time for which a sleeper collects.
    pub const AT_MOST: Duration = Duration::from_secs(5);

    /// The intended duration of one sleep.
    pub const NAP: Duration = Duration::from_millis(1);

    /// The sleeper collects for at least this long for each sleep asked for, because the loss of the hogs is
    /// measured over the same time.
    const EACH_AT_LEAST: Duration = Duration::from_millis(10);

    /// Calls `sleep` `n` times: less often if that takes too long, more often if it takes too little time.
    pub fn collect(n: u64, mut sleep: impl FnMut(Duration)) -> Oversleep {
        let start = Instant::now();
        let mut over = Oversleep::default();
        let wanted =
            |over: &Oversleep| (over.0.len() as u64) < n || start.elapsed() < Self::EACH_AT_LEAST * n as u32;
        while wanted(&over) && start.elapsed() < Self::AT_MOST {
            let before = Instant::now();
            sleep(Self::NAP);
            over.0.push(before.elapsed().saturating_sub(Self::NAP).as_nanos() as u64);
        }
        over
    }

    /// The value that `percent` of the sleeps did not exceed.
    pub fn percentile(&mut self, percent: usize) -> f64 {
        self.0.sort_unstable();
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0[rank - 1] as f64
    }

    /// The report of `hog` and `hog_first`. It must be called right after the sleeper has ended. `sleep` then
    /// lets the hogs run alone for as long as they ran beside the sleeper.
    pub fn report(
        mut self,
        hogs: &Counters,
        beside: &HogRun,
        procs: usize,
        sleep: impl FnOnce(Duration),
    ) -> Report {
        let (time, share, speed) = (beside.start.elapsed(), beside.cpu_share(procs), beside.speed(hogs));
        let alone = HogRun::begin(hogs);
        sleep(time);
        Report::new(self.0.len() as u64, time)
            .with("over_p50_ns", self.percentile(50))
            .with("over_p99_ns", self.percentile(99))
            .with("hog_share", share)
            .with("hog_loss", (1.0 - speed / alone.speed(hogs)).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_and_fork_counts_are_right() {
        assert_eq!(skynet_nodes(1), 1);
        assert_eq!(skynet_nodes(1_000_000), 1_111_111);
        assert_eq!(skynet_sum(10), 45);
        assert_eq!(fib_forks(1), 0);
        assert_eq!(fib_forks(4), 4);
        assert_eq!(fib_forks(25), 121_392);
    }

    #[test]
    fn nth_prime_counts_from_two() {
        assert_eq!((nth_prime(1), nth_prime(2), nth_prime(6), nth_prime(2000)), (2, 3, 13, 17389));
    }

    #[test]
    fn sieve_messages_are_counted_up_to_the_smallest_factor() {
        // 2 and 4 pass one channel, 3 passes two, 5 passes three.
        assert_eq!(sieve_messages(3), 1 + 2 + 1 + 3);
    }

    #[test]
    fn lcg_stays_in_its_bounds_and_reaches_both() {
        let mut lcg = Lcg::new(7);
        let drawn: Vec<u64> = (0..10_000).map(|_| lcg.between(1, 100)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&1), Some(&100)));
    }

    #[test]
    fn percentile_is_the_nearest_rank() {
        let mut over = Oversleep((1..=200).rev().collect());
        assert_eq!((over.percentile(50), over.percentile(99)), (100.0, 198.0));
        assert_eq!(Oversleep(vec![7]).percentile(99), 7.0);
    }

    #[test]
    fn status_fields_are_read_in_kilobytes() {
        assert_eq!(field_kb("VmPeak:\t 10 kB\nVmRSS:\t    1234 kB\n", "VmRSS:"), 1234);
        assert!(memory() > 100_000);
    }

    #[test]
    fn fairness_is_the_largest_distance_from_the_mean() {
        let hogs = Counters::new(2);
        let run = HogRun::begin(&hogs);
        hogs.slots[0].0.store(150, Ordering::Relaxed);
        hogs.slots[1].0.store(50, Ordering::Relaxed);
        let args = crate::Args { workload: "fairness".into(), procs: 1, size: None, variant: None };
        assert!(run.fairness(&hogs).to_json("std", &args).contains(r#""deviation":0.5"#));
    }

    #[test]
    fn a_stopped_hog_returns() {
        let hogs = Counters::new(1);
        hogs.stop();
        hogs.hog(0);
        assert_eq!(hogs.started(), 1);
    }
}
