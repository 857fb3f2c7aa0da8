//! The timers of all threads. A thread that starts later is noticed at the next look; the time that it has
//! used by then counts, because its timer counts from the thread's start.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use super::handler::OURS;
use crate::sys::cpu_timer::{CpuTimer, SIGPROF};
use crate::sys::{inspect, thread};

pub(super) struct Threads {
    /// CPU time between two samples (ns).
    period: u64,
    timers: HashMap<u32, Timed>,
    /// The names of threads that ended since the last samples were read.
    ended: HashMap<u32, String>,
    random: u64,
    /// How many threads got no timer.
    pub(super) refused: usize,
}

struct Timed {
    /// `None`: the kernel refused it.
    timer: Option<CpuTimer>,
    name: Option<String>,
}

impl Threads {
    /// Gives each thread that runs now a timer.
    pub(super) fn new(period: u64, random: u64) -> io::Result<Threads> {
        let mut threads =
            Threads { period, timers: HashMap::new(), ended: HashMap::new(), random, refused: 0 };
        for tid in thread::all().ok_or_else(|| io::Error::other("the threads cannot be listed (/proc)"))? {
            let first = thread::cpu_nanos(tid).unwrap_or(0) + threads.part_of_period();
            match threads.timer(tid, first) {
                Ok(timer) => drop(threads.timers.insert(tid, Timed { timer: Some(timer), name: None })),
                // It has ended meanwhile.
                Err(_) if thread::cpu_nanos(tid).is_none() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(threads)
    }

    /// A random part of the period: so that the threads do not all fire at once.
    fn part_of_period(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % self.period
    }

    fn timer(&self, tid: u32, first: u64) -> io::Result<CpuTimer> {
        CpuTimer::new(tid, OURS, first, self.period).map_err(|error| {
            let why = format!("no timer for a thread: {error} (each takes one of `ulimit -i`)");
            io::Error::new(error.kind(), why)
        })
    }

    /// Looks which threads have started and ended. Samples of those that ended have been read.
    pub(super) fn look(&mut self) {
        let mut all = Vec::with_capacity(self.timers.len() + 8);
        if !inspect::threads(|tid| all.push(tid)) {
            return;
        }
        self.ended.clear();
        for &tid in &all {
            match self.timers.get_mut(&tid) {
                // Most threads choose their names a moment after their start.
                Some(timed) if timed.name.is_none() => timed.name = thread::name(tid),
                Some(_) => {}
                None => {
                    let first = self.part_of_period();
                    let timer = self.timer(tid, first).ok();
                    self.refused += usize::from(timer.is_none() && thread::cpu_nanos(tid).is_some());
                    self.timers.insert(tid, Timed { timer, name: None });
                }
            }
        }
        if all.len() < self.timers.len() {
            let running: std::collections::HashSet<u32> = all.into_iter().collect();
            for (tid, timed) in self.timers.extract_if(|tid, _| !running.contains(tid)) {
                self.ended.insert(tid, timed.name.unwrap_or_default());
            }
        }
    }

    /// The name of a thread that a sample names.
    pub(super) fn name(&self, tid: u32) -> String {
        let known = self.timers.get(&tid).and_then(|timed| timed.name.clone());
        let name = known.or_else(|| thread::name(tid)).or_else(|| self.ended.get(&tid).cloned());
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| "thread that ended".into())
    }

    /// Whether a signal of a timer is on its way to a thread.
    pub(super) fn have_pending(&self) -> bool {
        self.timers.keys().any(|&tid| thread::has_pending(tid, SIGPROF))
    }

    /// Ends all timers, each at a moment when none of its signals is on its way: since Linux 6.13 the signal
    /// of a deleted timer vanishes, and if it has interrupted a call meanwhile, no handler restarts that
    /// call, so that it fails with EINTR. A thread that blocks the signal keeps it; its timer ends after
    /// `wait`.
    ///
    /// Between the look and the deletion lie some microseconds in which the timer may still fire. To disarm
    /// it first would not help, because that makes its signals vanish, too.
    pub(super) fn stop(&mut self, wait: Duration) {
        let limit = Instant::now() + wait;
        loop {
            let late = Instant::now() >= limit;
            let mut any_left = false;
            for (&tid, timed) in &mut self.timers {
                if timed.timer.is_some() && (late || !thread::has_pending(tid, SIGPROF)) {
                    timed.timer = None;
                }
                any_left |= timed.timer.is_some();
            }
            if !any_left {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
