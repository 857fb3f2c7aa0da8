//! The first part: the service under a steady load with bursts.
//!
//! Some clients submit jobs at a steady pace and wait when the queue is full: back-pressure. Twice a second a
//! burst of jobs arrives at once, four times as many as fit into the queue. Each of them waits 2 ms for a
//! place. A job that is refused ("job queue full", with the job) is submitted once more with a longer
//! timeout, and given up after that.
//!
//! Right before the shutdown, a client submits a job that never ends by itself: the deadline must end it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gort::chan::{self, Receiver, Sender};
use gort::context::Context;
use gort::sync::WaitGroup;

use super::board::{Board, Part};
use super::figures;
use super::jobs::{Job, Kind, Tools};
use super::service::{Refused, Service, Why};

/// Steady jobs per second and processor. A third of them compute for about a millisecond each.
const PACE: f64 = 1000.0;
const BURST_EVERY: Duration = Duration::from_millis(500);
/// The largest number of jobs in a burst. Each of them has its own goroutine, which submits it.
const LARGEST_BURST: usize = 20_000;
/// The timeout of a submit in a burst.
const BURST_PATIENCE: Duration = Duration::from_millis(2);
/// The timeout of a second submit.
const RETRY_PATIENCE: Duration = Duration::from_millis(250);
/// The timeout of a submit by a steady client.
const STEADY_PATIENCE: Duration = Duration::from_secs(1);
/// The grace period of the shutdown.
const GRACE: Duration = Duration::from_millis(500);

/// The counters of all clients.
#[derive(Default)]
struct Counts {
    next: AtomicUsize,
    offered: AtomicU64,
    accepted: AtomicU64,
    queue_full: AtomicU64,
    accepted_later: AtomicU64,
    given_up: AtomicU64,
}

struct Client {
    service: Arc<Service>,
    counts: Arc<Counts>,
    /// Takes jobs that were refused once.
    again: Sender<Job>,
}

impl Client {
    fn offer(&self, timeout: Duration) {
        self.counts.offered.fetch_add(1, Relaxed);
        let job = Job::mixed(self.counts.next.fetch_add(1, Relaxed));
        match self.service.submit(job, timeout) {
            Ok(()) => _ = self.counts.accepted.fetch_add(1, Relaxed),
            Err(Refused { job, why: Why::QueueFull }) => {
                self.counts.queue_full.fetch_add(1, Relaxed);
                if self.again.send(job).is_err() {
                    self.counts.given_up.fetch_add(1, Relaxed);
                }
            }
            Err(Refused { why: Why::ShuttingDown, .. }) => _ = self.counts.given_up.fetch_add(1, Relaxed),
        }
    }

    /// Submits the jobs that were refused once a second time, until all clients have ended.
    fn offer_again(service: &Service, counts: &Counts, returned: &Receiver<Job>) {
        for job in returned {
            match service.submit(job, RETRY_PATIENCE) {
                Ok(()) => {
                    counts.accepted.fetch_add(1, Relaxed);
                    counts.accepted_later.fetch_add(1, Relaxed);
                }
                Err(refused) => {
                    if refused.why == Why::QueueFull {
                        counts.queue_full.fetch_add(1, Relaxed);
                    }
                    counts.given_up.fetch_add(1, Relaxed);
                }
            }
        }
    }
}

pub(crate) fn run(
    ctx: &Context,
    workers: usize,
    time: Duration,
    board: &Board,
) -> io::Result<figures::Service> {
    let procs = gort::runtime::max_procs();
    let tools = Arc::new(Tools::new(procs)?);
    let service = Arc::new(Service::start(workers, &tools)?);
    let counts = Arc::new(Counts::default());
    let shutting = Arc::new(AtomicBool::new(false));
    board.begin(Part::Service, time, note(&service, &counts, &shutting));
    board.watch_queues({
        let service = service.clone();
        move || service.queues()
    });
    let (begin, busy) = (Instant::now(), board.busy_since());

    let (traffic, _stop) = ctx.with_timeout(time);
    let (again, returned) = chan::unbounded();
    let client = || Client { service: service.clone(), counts: counts.clone(), again: again.clone() };
    let clients = Arc::new(WaitGroup::new());
    let steady = procs.max(2);
    let pause = Duration::from_secs_f64(steady as f64 / (PACE * procs as f64));
    for _ in 0..steady {
        let (client, traffic) = (client(), traffic.clone());
        clients.go(move || {
            while gort::time::sleep_ctx(&traffic, pause).is_ok() {
                client.offer(STEADY_PATIENCE);
            }
        });
    }
    let (_, capacity, _) = service.queues();
    clients.go({
        let (clients, traffic) = (clients.clone(), traffic.clone());
        let burst: Arc<Client> = Arc::new(client());
        move || {
            loop {
                for _ in 0..(4 * capacity).min(LARGEST_BURST) {
                    let client = burst.clone();
                    clients.go(move || client.offer(BURST_PATIENCE));
                }
                if gort::time::sleep_ctx(&traffic, BURST_EVERY).is_err() {
                    break;
                }
            }
        }
    });
    drop(again);
    let retries = gort::spawn({
        let (service, counts) = (service.clone(), counts.clone());
        move || Client::offer_again(&service, &counts, &returned)
    });
    let _ended = traffic.done().recv();
    clients.wait();
    // This ends, because all senders of the channel of returned jobs have been dropped.
    retries.join().map_err(|_| io::Error::other("the retrying client panicked"))?;

    shutting.store(true, Relaxed);
    let stuck = Job { kind: Kind::Stuck, variant: 0 };
    counts.offered.fetch_add(1, Relaxed);
    match service.submit(stuck, STEADY_PATIENCE) {
        Ok(()) => counts.accepted.fetch_add(1, Relaxed),
        Err(_) => counts.given_up.fetch_add(1, Relaxed),
    };
    let shutdown = service.shut_down(GRACE);
    board.stop_watching_queues();

    let tally = service.tally();
    let figures = figures::Service {
        seconds: begin.elapsed().as_secs_f64(),
        queue_capacity: capacity,
        offered: counts.offered.load(Relaxed),
        accepted: counts.accepted.load(Relaxed),
        queue_full: counts.queue_full.load(Relaxed),
        accepted_later: counts.accepted_later.load(Relaxed),
        given_up: counts.given_up.load(Relaxed),
        done: tally.done,
        wrong: tally.wrong,
        first_error: tally.first_error,
        cancelled: tally.cancelled,
        compute: tally.compute.spread(),
        file: tally.file.spread(),
        network: tally.network.spread(),
        cpu_slots: procs,
        cpu_at_once: tools.cpu_at_once(),
        shutdown,
        busy: busy.shares(),
    };
    shutting.store(false, Relaxed);
    board.end(Part::Service);
    Ok(figures)
}

fn note(
    service: &Arc<Service>,
    counts: &Arc<Counts>,
    shutting: &Arc<AtomicBool>,
) -> impl Fn() -> String + Send + 'static {
    let (service, counts, shutting) = (service.clone(), counts.clone(), shutting.clone());
    move || {
        let end = if shutting.load(Relaxed) { "; shutting down" } else { "" };
        let full = counts.queue_full.load(Relaxed);
        format!("{} done, {full} × queue full{end}", super::text::thousands(service.done()))
    }
}
