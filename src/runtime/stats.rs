//! Statistics: what the scheduler has counted.

use std::fmt;
use std::time::Duration;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::diag::stall;
use crate::goroutine::Labels;
use crate::sched::account::label_times;
use crate::sched::boot;
use crate::sched::event::EVENTS;
use crate::sched::machine::SCHED;
use crate::sched::queue::histogram::{self, BUCKETS};
use crate::sched::run::runtime_section;
use crate::sched::types::g::G;
use crate::sched::types::wait_times::{Sum, Sums};
use crate::sched::word::pinned_readers;
use crate::sched::word::status::{Status, WaitReason};
use crate::stack::slot;
use crate::sys::thread;

/// What the scheduler has done so far, and its present state. See [`stats`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The goroutines that exist now, by state.
    pub goroutines: Goroutines,
    /// Goroutines spawned so far.
    pub created: u64,
    /// Goroutines that have ended so far.
    pub ended: u64,
    /// Goroutines in the queue that all processors share.
    pub global_queue: usize,
    /// Goroutines in the queue of those that used up their time slice.
    pub hog_queue: usize,
    /// Goroutines in the queue of each processor.
    pub local_queues: Vec<usize>,
    /// How many times a processor took goroutines from another one's queue.
    pub steals: u64,
    /// How many goroutines were taken that way.
    pub stolen: u64,
    /// How many times a processor passed to another thread because its goroutine blocked, or was bound to its
    /// thread and stopped.
    pub hand_offs: u64,
    /// How many times a goroutine was asked to let others run, and did so at its next call into gort.
    pub preempted: u64,
    /// How many times a signal stopped a goroutine.
    pub preempted_by_signal: u64,
    /// How many times a goroutine waited for something.
    pub parks: u64,
    /// Calls of [`yield_now`](crate::yield_now) by goroutines.
    pub yields: u64,
    /// How many times an idle thread began to look for work in the queues of other processors.
    pub spins: u64,
    /// Calls of [`blocking`](crate::blocking) by goroutines.
    pub blocking_calls: u64,
    /// Blocking calls that were not marked, that the runtime noticed and took the processor from, and that
    /// have ended. Calls that last are listed by [`longest_blocking_calls`](super::longest_blocking_calls).
    pub unmarked_calls: u64,
    /// How long these calls took together, each from when the runtime noticed it.
    pub unmarked_time: Duration,
    /// Stalls that were reported. See [`Config::stall_after`](super::Config::stall_after).
    pub stalls: u64,
    /// How many times the queue of a processor was full and half of it moved to the shared one.
    pub overflows: u64,
    /// The stacks of goroutines.
    pub stacks: Stacks,
    /// The OS threads that run goroutines.
    pub threads: Threads,
    /// How long goroutines were runnable before they ran. Samples: see [`stats`].
    pub latencies: Histogram,
    /// How long goroutines ran before they stopped. Samples: see [`stats`].
    pub slices: Histogram,
    /// How often and how long goroutines waited, by reason: all reasons, in a fixed order. The numbers grow
    /// only while [`record_waits`] is on.
    pub waits: Vec<Waits>,
    /// The CPU time that the program's goroutines and the runtime have used.
    pub cpu: CpuTime,
}

/// CPU time, by what it was used for. It is the kernel's: time in which a thread waited, or other processes
/// had the core, is not part of it.
///
/// About once a millisecond the runtime looks which goroutine runs on a thread, and charges that goroutine
/// with what the thread has used since the last look. So the sum of all parts is exact, and each part is a
/// sample: after a second of CPU time the part of a goroutine that uses a tenth of it is known to about one
/// percent of the whole. Threads of the program outside of gort, and those that have ended, are not part of
/// it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CpuTime {
    /// What goroutines have used, with their system calls.
    pub goroutines: Duration,
    /// What the runtime has used itself: looking for work, starting and ending threads and goroutines,
    /// watching. A switch from one goroutine to the next counts for the goroutines.
    pub runtime: Duration,
    /// What threads have used since the runtime last looked at them.
    pub unassigned: Duration,
    /// What goroutines with labels have used, ended ones included, by set of labels; the largest part first.
    /// The rest of [`goroutines`](CpuTime::goroutines) is that of goroutines without labels. At most 1000
    /// sets are kept apart; later ones count as none.
    pub by_labels: Vec<(Labels, Duration)>,
}

/// The waits of goroutines for one reason. See [`record_waits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waits {
    /// What they waited for, in the words of dumps: "chan receive".
    pub reason: &'static str,
    /// How many waits have ended.
    pub count: u64,
    /// How long all of them took together: each from the moment at which the goroutine stopped until it was
    /// made runnable. Then it may have waited for a processor; see [`Stats::latencies`].
    pub time: Duration,
}

/// How many goroutines are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Goroutines {
    /// Running.
    pub running: usize,
    /// Ready to run.
    pub runnable: usize,
    /// Parked: waiting for a channel, a lock, a timer, I/O and so on.
    pub waiting: usize,
    /// In a blocking call.
    pub syscall: usize,
    /// Stopped by a signal, on their threads.
    pub preempted: usize,
}

/// How many stacks there are. Memory is used only for their pages that were touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stacks {
    /// Stacks of goroutines that exist.
    pub in_use: usize,
    /// Stacks of ended goroutines, kept for new ones.
    pub cached: usize,
    /// How often the unused part of a stack, of either kind, was given back to the system.
    pub trimmed: u64,
}

/// Numbers of OS threads, by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Threads {
    /// All threads that run goroutines.
    pub alive: usize,
    /// Threads of the runtime that never run goroutines. The stall watchdog does not count while it runs code
    /// of the program.
    pub service: usize,
    /// Threads that have nothing to do and sleep.
    pub idle: usize,
    /// Threads that look for work.
    pub spinning: usize,
}

/// How often which durations occurred, in buckets that are no wider than a quarter of their lower end.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum: Duration,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [0; BUCKETS], sum: Duration::ZERO }
    }
}

impl Histogram {
    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all durations that were counted.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The non-empty buckets: the shortest duration of each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let all = self.counts.iter().enumerate().filter(|(_, count)| **count != 0);
        all.map(|(index, &count)| (Duration::from_nanos(histogram::lower_bound(index)), count))
    }

    /// The lower end of the bucket in which the quantile `q` (0 to 1) lies; `None` if nothing was counted.
    ///
    /// ```
    /// let median = gort::runtime::stats().latencies.quantile(0.5);
    /// println!("a goroutine waits for a processor: {median:?}");
    /// ```
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = (self.count() as f64 * q.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut below = 0;
        self.buckets().find_map(|(duration, count)| {
            below += count;
            (below >= rank).then_some(duration)
        })
    }

    fn of<'a>(parts: impl Iterator<Item = &'a histogram::Histogram>) -> Histogram {
        let mut all = Histogram::default();
        parts.for_each(|part| all.sum += Duration::from_nanos(part.add_to(&mut all.counts)));
        all
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.buckets()).finish()
    }
}

/// What the scheduler did so far and what it has now.
///
/// Counting costs next to nothing: every processor has counters of its own, and this function sums them up.
/// They are read while goroutines run, so numbers that belong together may differ by what happened meanwhile.
/// The call looks at every goroutine once; with a million of them that takes a fraction of a second, during
/// which they keep running.
///
/// The histograms are made of samples, so that no clock is read at an ordinary switch. Of about 244 time
/// slices on a processor, one is measured; and one goroutine that became runnable during that slice is
/// measured until it runs. Of the goroutines that pass through the shared queues (readied by threads outside
/// of gort, or preempted), one in 16 is measured until a processor takes it. Goroutines that were stolen
/// meanwhile are left out. A goroutine counts as runnable since the start of the slice in which it was
/// readied, because the exact time is not known.
///
/// ```
/// gort::run(|| gort::spawn(|| ()).join().unwrap());
/// let stats = gort::runtime::stats();
/// assert!(stats.created >= 1);
/// println!("{stats:#?}");
/// ```
pub fn stats() -> Stats {
    let mut stats = counters();
    G::for_each(|g| {
        let states = &mut stats.goroutines;
        let state = match g.status() {
            Status::Dead => {
                stats.stacks.cached += 1;
                return;
            }
            Status::Running => &mut states.running,
            Status::Runnable => &mut states.runnable,
            Status::Waiting => &mut states.waiting,
            Status::Syscall => &mut states.syscall,
            Status::Preempted => &mut states.preempted,
        };
        *state += 1;
        stats.stacks.in_use += 1;
    });
    stats
}

/// As [`stats`], but without the numbers for which it looks at all goroutines: those by state, and of stacks.
pub(crate) fn counters() -> Stats {
    boot::ensure();
    let mut stats =
        Stats { created: SCHED.platform.created_outside.load(Ordering::Relaxed), ..Stats::default() };
    for p in SCHED.all_ps() {
        let counted = &p.stats;
        stats.created += counted.created.get();
        stats.ended += counted.ended.get();
        stats.steals += counted.steals.get();
        stats.stolen += counted.stolen.get();
        stats.hand_offs += counted.hand_offs.get();
        stats.preempted += counted.preempted.get();
        stats.preempted_by_signal += counted.preempted_by_signal.get();
        stats.parks += counted.parks.get();
        stats.yields += counted.yields.get();
        stats.spins += counted.spins.get();
        stats.blocking_calls += counted.syscalls.get();
        stats.overflows += counted.overflows.get();
    }
    stats.local_queues = SCHED.ps_in_use().map(|p| p.runq.len()).collect();
    stats.global_queue = SCHED.global_len() as usize;
    stats.hog_queue = SCHED.preempted_len() as usize;
    stats.threads = threads();
    stats.latencies = Histogram::of(
        SCHED.all_ps().map(|p| &p.sampler.latencies).chain(std::iter::once(&SCHED.global_latencies)),
    );
    stats.slices = Histogram::of(SCHED.all_ps().map(|p| &p.sampler.slices));
    stats.stacks.trimmed = slot::trimmed();
    stats.waits = waits();
    stats.stalls = stall::reported();
    for m in SCHED.platform.all_ms() {
        let (count, nanos) = m.call.totals();
        stats.unmarked_calls += count;
        stats.unmarked_time += Duration::from_nanos(nanos);
    }
    stats.cpu = cpu_time();
    stats
}

fn cpu_time() -> CpuTime {
    let (mut goroutines, mut runtime, mut unassigned) = (0, 0, 0);
    let mut pending_of_labels = Vec::new();
    let reading = pinned_readers::begin();
    for m in SCHED.platform.all_ms() {
        let (charged, scheduler) = m.cpu_time.charged();
        let pending = m.cpu_time.pending();
        goroutines += charged;
        runtime += scheduler;
        match m.current() {
            Some(g) => {
                goroutines += pending;
                // SAFETY: while we read, its info stays alive.
                let labels = reading.as_ref().map(|_| unsafe { g.labels() });
                pending_of_labels.extend(labels.map(|labels| (labels, pending)));
            }
            None => runtime += pending,
        }
        let clock = m.alive.load(Ordering::Relaxed).then(|| thread::cpu_nanos(m.tid())).flatten();
        unassigned += clock.map_or(0, |clock| m.cpu_time.unmeasured(clock));
    }
    drop(reading);
    let service = SCHED.platform.service_threads();
    runtime += service.filter_map(thread::cpu_nanos).sum::<u64>();
    let by_labels = label_times::all(&pending_of_labels);
    let mut by_labels: Vec<_> =
        by_labels.into_iter().map(|(set, nanos)| (Labels(set), Duration::from_nanos(nanos))).collect();
    by_labels.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    CpuTime {
        goroutines: never_less(&GOROUTINES_REPORTED, goroutines),
        runtime: never_less(&RUNTIME_REPORTED, runtime),
        unassigned: Duration::from_nanos(unassigned),
        by_labels,
    }
}

/// What reports have said.
static GOROUTINES_REPORTED: AtomicU64 = AtomicU64::new(0);
static RUNTIME_REPORTED: AtomicU64 = AtomicU64::new(0);

/// The time, or what was reported before: a charge may fall between the readings of two counters.
fn never_less(reported: &AtomicU64, nanos: u64) -> Duration {
    Duration::from_nanos(reported.fetch_max(nanos, Ordering::Relaxed).max(nanos))
}

fn waits() -> Vec<Waits> {
    let mut sums = Sums::default();
    SCHED.all_ps().for_each(|p| p.wait_times.add_to(&mut sums));
    SCHED.platform.wait_times.add_to(&mut sums);
    let of = |(number, sum): (usize, &Sum)| Waits {
        reason: WaitReason::from_u8(number as u8).name(),
        count: sum.count,
        time: Duration::from_nanos(sum.nanos),
    };
    sums.iter().enumerate().map(of).collect()
}

/// Turns the measuring of waits on or off; returns whether it was on. While it is on, [`Stats::waits`] grows,
/// and dumps know the exact time at which a goroutine began to wait. It is off at first, because two readings
/// of the clock for each wait cost about as much as a switch. Only waits that begin and end while it is
/// on are measured.
///
/// ```
/// gort::runtime::record_waits(true);
/// gort::run(|| gort::spawn(|| gort::sleep(std::time::Duration::from_millis(2))).join().unwrap());
/// gort::runtime::record_waits(false);
/// let waits = gort::runtime::stats().waits;
/// let sleeps = waits.iter().find(|waits| waits.reason == "sleep").unwrap();
/// assert!(sleeps.count >= 1 && sleeps.time.as_millis() >= 1); // measured from the park
/// ```
pub fn record_waits(on: bool) -> bool {
    EVENTS.record_waits(on)
}

fn threads() -> Threads {
    let alive = SCHED.platform.live_count();
    let section = runtime_section::enter();
    let idle = SCHED.lock().idle_m_count() as usize;
    drop(section);
    let service = SCHED.platform.service_threads().count();
    Threads { alive, service, idle, spinning: SCHED.idle.spinning() as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_their_buckets() {
        let counted = histogram::Histogram::new();
        (1..=1000).for_each(|n| counted.add(n * 1000));
        let histogram = Histogram::of(std::iter::once(&counted));
        assert_eq!(histogram.count(), 1000);
        for (q, nanos) in [(0.0, 1000), (0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let found = histogram.quantile(q).unwrap().as_nanos() as u64;
            assert!(found <= nanos && nanos < found + found / 4 + 1, "{q}: {found}");
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
