//! A service: a bounded queue of jobs, a pool of goroutines that processes them, and a shutdown with a
//! deadline.
//!
//! ```text
//! submit(job, timeout) → queue (bounded) → pool of workers → results (bounded) → collector → Tally
//!     └ full for the whole timeout: Err: job queue full, with the job
//! ```
//!
//! Both channels are bounded, so that a side that is too fast has to wait. The pool is larger than the number
//! of processors, because most jobs wait for something; a semaphore limits how many of them compute at once
//! (`jobs.rs`).
//!
//! Shutdown: the service closes the queue, so that it accepts no new jobs, and the pool processes the jobs
//! that are in it. If that takes longer than the grace period, the service cancels the context of all jobs.
//! Then waiting jobs give up, and jobs still in the queue are not started.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gort::chan::{self, Receiver, SendTimeoutError, Sender};
use gort::context::{Cancel, Context};
use gort::sync::{Mutex, WaitGroup};

use super::figures::Shutdown;
use super::jobs::{Job, Kind, Outcome, Tools};
use super::spread::Durations;

/// A job that the queue did not accept. The caller gets it back, so that no job is lost, and can submit it
/// again or reject the request.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) job: Job,
    pub(crate) why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The queue had no free place during the whole timeout.
    QueueFull,
    ShuttingDown,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.why {
            Why::QueueFull => "job queue full",
            Why::ShuttingDown => "the service shuts down",
        })
    }
}

impl std::error::Error for Refused {}

struct Submitted {
    job: Job,
    since: Instant,
}

struct Answer {
    kind: Kind,
    outcome: Outcome,
    took: Duration,
}

/// The results so far.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    pub(crate) done: u64,
    pub(crate) wrong: u64,
    pub(crate) cancelled: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) compute: Durations,
    pub(crate) file: Durations,
    pub(crate) network: Durations,
    last: Option<Instant>,
}

impl Tally {
    fn add(&mut self, answer: Answer) {
        match answer.outcome {
            Outcome::Right => {
                self.done += 1;
                self.last = Some(Instant::now());
                match answer.kind {
                    Kind::Compute => self.compute.add(answer.took),
                    Kind::File => self.file.add(answer.took),
                    Kind::Network => self.network.add(answer.took),
                    Kind::Stuck => {}
                }
            }
            Outcome::Wrong(why) => {
                self.wrong += 1;
                self.first_error.get_or_insert(why);
            }
            Outcome::Cancelled => self.cancelled += 1,
        }
    }
}

pub(crate) struct Service {
    queue: Sender<Submitted>,
    results: Receiver<Answer>,
    tally: Arc<Mutex<Tally>>,
    pool: Arc<WaitGroup>,
    /// Done when the tally is complete.
    collector: WaitGroup,
    cancel: Cancel,
}

impl Service {
    /// Starts a pool of `workers` goroutines, with a queue for twice as many jobs.
    pub(crate) fn start(workers: usize, tools: &Arc<Tools>) -> io::Result<Service> {
        let (ctx, cancel) = Context::background().with_cancel();
        let (queue, jobs) = chan::bounded::<Submitted>(2 * workers);
        let (answers, results) = chan::bounded(2 * workers);
        let pool = Arc::new(WaitGroup::new());
        for n in 0..workers {
            let (ctx, jobs, answers) = (ctx.clone(), jobs.clone(), answers.clone());
            let (pool, tools) = (Done::of(&pool), tools.clone());
            gort::Builder::new().name(format!("worker {n}")).spawn(move || {
                let _pool = pool;
                for Submitted { job, since } in jobs {
                    let outcome = tools.run(&ctx, job);
                    let answer = Answer { kind: job.kind, outcome, took: since.elapsed() };
                    if answers.send(answer).is_err() {
                        break; // the collector has ended
                    }
                }
            })?;
        }
        let tally = Arc::new(Mutex::new(Tally::default()));
        let collector = WaitGroup::new();
        collector.go({
            let (results, tally) = (results.clone(), tally.clone());
            move || results.iter().for_each(|answer| tally.lock().add(answer))
        });
        Ok(Service { queue, results, tally, pool, collector, cancel })
    }

    /// Puts a job into the queue. Waits at most `timeout` for a free place.
    pub(crate) fn submit(&self, job: Job, timeout: Duration) -> Result<(), Refused> {
        let refused = match self.queue.send_timeout(Submitted { job, since: Instant::now() }, timeout) {
            Ok(()) => return Ok(()),
            Err(SendTimeoutError::Timeout(back)) => Refused { job: back.job, why: Why::QueueFull },
            Err(SendTimeoutError::Disconnected(back)) => Refused { job: back.job, why: Why::ShuttingDown },
        };
        Err(refused)
    }

    /// The results so far.
    pub(crate) fn tally(&self) -> Tally {
        self.tally.lock().clone()
    }

    /// The number of jobs done so far.
    pub(crate) fn done(&self) -> u64 {
        self.tally.lock().done
    }

    /// The number of jobs in the queue, the capacity of the queue, and the number of answers that wait for
    /// the collector.
    pub(crate) fn queues(&self) -> (usize, usize, usize) {
        (self.queue.len(), self.queue.capacity().unwrap_or(0), self.results.len())
    }

    /// Accepts no more jobs, waits at most `grace` for those that were accepted, and cancels the rest.
    pub(crate) fn shut_down(&self, grace: Duration) -> Shutdown {
        let begin = Instant::now();
        let queued = self.queue.len();
        self.queue.close();
        if !self.pool.wait_for(grace) {
            self.cancel.cancel();
            self.pool.wait();
        }
        let took = begin.elapsed();
        // Only the pool sends answers, so the collector ends when it has received all of them.
        self.collector.wait();
        let last = self.tally.lock().last;
        let drained = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(begin));
        Shutdown { queued, drained_ms: millis(drained), grace_ms: millis(grace), took_ms: millis(took) }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Counts the group down when it is dropped, also during a panic.
struct Done(Arc<WaitGroup>);

impl Done {
    fn of(group: &Arc<WaitGroup>) -> Done {
        group.add(1);
        Done(group.clone())
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.0.done();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUCK: Job = Job { kind: Kind::Stuck, variant: 0 };

    #[test]
    fn a_full_queue_gives_the_job_back() {
        gort::run(|| {
            let service = Service::start(1, &Arc::new(Tools::new(1).unwrap())).unwrap();
            let mut accepted = 0;
            // One goroutine, which is stuck, and two places in the queue: the third or fourth job is refused.
            let refused = loop {
                match service.submit(STUCK, Duration::from_millis(1)) {
                    Ok(()) => accepted += 1,
                    Err(refused) => break refused,
                }
            };
            assert_eq!(refused.to_string(), "job queue full");
            assert_eq!((refused.job.kind, refused.why), (Kind::Stuck, Why::QueueFull));
            assert!((2..=3).contains(&accepted), "{accepted}");
            service.shut_down(Duration::from_millis(1));
            assert_eq!(service.tally().cancelled, accepted);
            assert_eq!(service.submit(STUCK, Duration::MAX).unwrap_err().why, Why::ShuttingDown);
        });
    }

    #[test]
    fn shutdown_works_off_the_queue_before_the_deadline() {
        gort::run(|| {
            let service = Service::start(2, &Arc::new(Tools::new(1).unwrap())).unwrap();
            for n in 0..30 {
                service.submit(Job::mixed(n), Duration::MAX).unwrap();
            }
            service.shut_down(Duration::MAX);
            let tally = service.tally();
            assert_eq!((tally.done, tally.wrong, tally.cancelled), (30, 0, 0), "{:?}", tally.first_error);
        });
    }
}
