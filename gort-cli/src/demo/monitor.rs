//! The monitor: a goroutine that samples the runtime ten times a second and shows the result. It keeps doing
//! so while endless loops run on every processor, which is part of the demonstration.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gort::JoinHandle;
use gort::chan::{self, Sender, select};
use gort::runtime::{Histogram, Stats, stats};
use gort::time::Ticker;

use super::board::{Board, Line};
use super::sampler::{Counts, Sampler};
use super::view::View;

const EVERY: Duration = Duration::from_millis(100);

/// `stats` visits every goroutine. With very many goroutines the monitor samples less often, so that it takes
/// at most one twentieth of a processor.
const COST_SHARE: u32 = 20;

/// What the view shows at one moment.
pub(crate) struct Frame {
    pub(crate) elapsed: Duration,
    pub(crate) lines: Vec<Line>,
    /// How busy each processor has been recently, from 0 to 1.
    pub(crate) busy: Vec<f64>,
    pub(crate) stats: Stats,
    /// The number of waiting jobs, the capacity of their queue, and the number of waiting answers.
    pub(crate) queues: Option<(usize, usize, usize)>,
    /// How long goroutines have recently waited for a processor: the median and the 99th percentile.
    pub(crate) latency: Option<(Duration, Duration)>,
}

pub(crate) struct Monitor {
    stop: Sender<()>,
    goroutine: JoinHandle<View>,
}

impl Monitor {
    pub(crate) fn start(board: Arc<Board>, sampler: Arc<Sampler>, view: View) -> io::Result<Monitor> {
        let (stop, stopped) = chan::bounded::<()>(0);
        let goroutine = gort::Builder::new().name("monitor".into()).spawn(move || {
            let mut watch = Watch { sampler, ..Watch::default() };
            let mut view = view;
            let ticker = Ticker::new(EVERY);
            loop {
                let begin = Instant::now();
                view.show(&watch.frame(&board));
                ticker.reset(EVERY.max(begin.elapsed() * COST_SHARE));
                select! {
                    recv(ticker.c()) -> _ => {}
                    recv(stopped) -> _ => break,
                }
            }
            // Show what happened since the last frame.
            view.show(&watch.frame(&board));
            view
        })?;
        Ok(Monitor { stop, goroutine })
    }

    /// Ends the live view.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // If the monitor panicked, the panic was printed, and the drop of its view has restored the cursor.
        if let Ok(view) = self.goroutine.join() {
            view.finish();
        }
    }
}

/// What the monitor keeps from one sample to the next.
#[derive(Default)]
struct Watch {
    sampler: Arc<Sampler>,
    counts: Counts,
    busy: Vec<f64>,
    latencies: BTreeMap<Duration, u64>,
    latency: Option<(Duration, Duration)>,
}

impl Watch {
    fn frame(&mut self, board: &Board) -> Frame {
        let stats = stats();
        let counts = self.sampler.counts();
        let recent = counts.shares_since(&self.counts);
        if !recent.is_empty() {
            // Average with the previous values, so that the bars do not flicker.
            let before = self.busy.iter().copied().map(Some).chain(std::iter::repeat(None));
            self.busy =
                recent.iter().zip(before).map(|(now, then)| (now + then.unwrap_or(*now)) / 2.0).collect();
            self.counts = counts;
        }
        if let Some(recent) = self.recent_latency(&stats.latencies) {
            self.latency = Some(recent);
        }
        Frame {
            elapsed: board.begun.elapsed(),
            lines: board.lines(),
            busy: self.busy.clone(),
            queues: board.queues(),
            latency: self.latency,
            stats,
        }
    }

    /// The median and the 99th percentile of the latencies since the last call that returned some.
    fn recent_latency(&mut self, now: &Histogram) -> Option<(Duration, Duration)> {
        let now: BTreeMap<Duration, u64> = now.buckets().collect();
        let recent: Vec<(Duration, u64)> =
            now.iter().map(|(d, n)| (*d, n - self.latencies.get(d).unwrap_or(&0))).collect();
        let total: u64 = recent.iter().map(|(_, n)| n).sum();
        if total < 20 {
            return None; // too few samples for a percentile: wait for more
        }
        self.latencies = now;
        let quantile = |q: f64| {
            let mut left = (total as f64 * q).ceil() as u64;
            let found = recent.iter().find(|(_, n)| {
                left = left.saturating_sub(*n);
                left == 0
            });
            found.map_or(Duration::ZERO, |(duration, _)| *duration)
        };
        Some((quantile(0.5), quantile(0.99)))
    }
}
