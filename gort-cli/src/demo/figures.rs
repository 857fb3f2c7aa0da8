//! The figures of a run. The report presents them in words, and `--json` prints them as they are.
//!
//! A part that did not run, because the user interrupted the demo earlier, is `null`.

use serde::Serialize;

use super::spread::Spread;

#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) version: &'static str,
    pub(crate) procs: usize,
    pub(crate) workers: usize,
    pub(crate) seconds: f64,
    pub(crate) interrupted: bool,
    /// The share of all CPUs that other programs used during the run.
    pub(crate) other_load: Option<f64>,
    pub(crate) service: Option<Service>,
    pub(crate) balance: Option<Balance>,
    /// How late a 1 ms sleeper wakes when nothing else runs.
    pub(crate) idle_sleeper: Option<Spread>,
    pub(crate) hogs: Option<Hogs>,
    pub(crate) blocking: Option<Blocking>,
    pub(crate) crowd: Option<Crowd>,
    pub(crate) scheduler: Scheduler,
    pub(crate) claims: Vec<Claim>,
}

/// A statement that must hold. If it does not, gort has a bug.
#[derive(Debug, Serialize)]
pub(crate) struct Claim {
    pub(crate) part: &'static str,
    pub(crate) claim: &'static str,
    pub(crate) holds: bool,
}

impl Figures {
    pub(crate) fn all_hold(&self) -> bool {
        self.claims.iter().all(|claim| claim.holds)
    }

    pub(crate) fn claim(&mut self, part: &'static str, claim: &'static str, holds: bool) {
        self.claims.push(Claim { part, claim, holds });
    }
}

/// The figures of the service. They satisfy: offered = accepted + given_up, and accepted = done + wrong +
/// cancelled.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Service {
    pub(crate) seconds: f64,
    pub(crate) queue_capacity: usize,
    /// Jobs that clients created.
    pub(crate) offered: u64,
    /// Jobs that the queue accepted.
    pub(crate) accepted: u64,
    /// How many times a submit failed with "job queue full" and returned the job.
    pub(crate) queue_full: u64,
    /// Jobs that were refused at first and accepted when submitted again.
    pub(crate) accepted_later: u64,
    /// Jobs that were refused twice, or refused because the service shut down.
    pub(crate) given_up: u64,
    /// Jobs with the right answer.
    pub(crate) done: u64,
    /// Jobs with a wrong answer, or an error.
    pub(crate) wrong: u64,
    /// A description of the first wrong answer.
    pub(crate) first_error: Option<String>,
    /// Jobs that were cancelled at the end of the grace period.
    pub(crate) cancelled: u64,
    /// The times from submit to answer, for each kind of job.
    pub(crate) compute: Option<Spread>,
    pub(crate) file: Option<Spread>,
    pub(crate) network: Option<Spread>,
    pub(crate) cpu_slots: usize,
    /// The largest number of CPU-bound jobs that ran at once.
    pub(crate) cpu_at_once: usize,
    pub(crate) shutdown: Shutdown,
    /// How busy each processor was, from 0 to 1.
    pub(crate) busy: Vec<f64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Shutdown {
    /// Jobs in the queue when the shutdown began.
    pub(crate) queued: usize,
    /// The time from the beginning of the shutdown until the last job was done.
    pub(crate) drained_ms: f64,
    pub(crate) grace_ms: f64,
    /// The time from the beginning of the shutdown until all goroutines of the pool had ended.
    pub(crate) took_ms: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Balance {
    pub(crate) jobs: u64,
    pub(crate) wall_ms: f64,
    pub(crate) cpu_ms: f64,
    /// CPU time divided by wall time.
    pub(crate) parallel: f64,
    pub(crate) steals: u64,
    pub(crate) stolen: u64,
    /// How many goroutines each processor took from others.
    pub(crate) stolen_by: Vec<u64>,
    pub(crate) busy: Vec<f64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Hogs {
    pub(crate) hogs: usize,
    pub(crate) seconds: f64,
    /// How late a 1 ms sleeper woke beside the loops.
    pub(crate) sleeper: Option<Spread>,
    pub(crate) preempted: u64,
    pub(crate) preempted_by_signal: u64,
    /// The work of the slowest loop, divided by an equal share of all work.
    pub(crate) least_share: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Blocking {
    pub(crate) callers: usize,
    pub(crate) call_ms: f64,
    /// Calls that returned within `seconds`.
    pub(crate) calls: u64,
    /// Calls that returned before the last caller ended.
    pub(crate) calls_in_all: u64,
    pub(crate) seconds: f64,
    /// How many calls were in progress at once, on average.
    pub(crate) at_once: f64,
    pub(crate) sleeper: Option<Spread>,
    pub(crate) hand_offs: u64,
    pub(crate) threads: usize,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Crowd {
    pub(crate) asked: usize,
    pub(crate) goroutines: usize,
    /// Why there were fewer goroutines than the user asked for.
    pub(crate) fewer_because: Option<String>,
    pub(crate) spawn_ms: f64,
    pub(crate) wake_ms: f64,
    pub(crate) woken: usize,
    pub(crate) bytes_each: f64,
    pub(crate) threads: usize,
    pub(crate) sleeper: Option<Spread>,
}

/// The scheduler's counters for the whole run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Scheduler {
    pub(crate) goroutines: u64,
    pub(crate) parks: u64,
    pub(crate) steals: u64,
    pub(crate) stolen: u64,
    pub(crate) hand_offs: u64,
    pub(crate) preempted: u64,
    pub(crate) preempted_by_signal: u64,
    pub(crate) threads: usize,
    /// How long runnable goroutines waited for a processor, from samples.
    pub(crate) latency_p50_us: Option<f64>,
    pub(crate) latency_p99_us: Option<f64>,
}
