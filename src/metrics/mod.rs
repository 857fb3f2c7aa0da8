//! Metrics: what the runtime counts, by name, and as text for Prometheus (feature `metrics`).
//!
//! The names are those of Go's `runtime/metrics` where Go has the fact, so that dashboards for Go programs
//! fit. What only gort has is called `/gort/…`. A name ends with its unit, behind a colon.
//!
//! ```
//! use gort::metrics::{self, Sample, Value};
//!
//! gort::run(|| gort::spawn(|| ()).join().unwrap());
//! assert!(matches!(metrics::get("/sched/gomaxprocs:threads"), Some(Value::Uint64(1..))));
//!
//! // Several at about the same moment:
//! let mut samples = [Sample::new("/sched/goroutines-created:goroutines"), Sample::new("/no/such:thing")];
//! metrics::read(&mut samples);
//! assert!(matches!(samples[0].value, Some(Value::Uint64(1..))));
//! assert_eq!(samples[1].value, None);
//! ```
//!
//! # Prometheus
//!
//! [`prometheus`] returns everything in the text format (version 0.0.4), for the handler of `/metrics`:
//!
//! ```
//! let text = gort::metrics::prometheus();
//! assert!(text.contains("# TYPE go_sched_goroutines_goroutines gauge"));
//! ```
//!
//! # All metrics
//!
//! [`all`] returns this table. *Total* means that the number only grows.
//!
#![doc = include_str!("table.md")]

mod describe;
mod prometheus;

pub use crate::runtime::record_waits;
pub use prometheus::prometheus;

use crate::runtime::{self, Histogram, Stats};
use describe::{METRICS, Metric};

/// What is known about a metric. See [`all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The whole name: `/sched/latencies:seconds`.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// What is counted: the part of the name behind the colon.
    pub unit: &'static str,
    /// What it means, in one sentence.
    pub help: &'static str,
    /// Whether it only grows.
    pub cumulative: bool,
}

/// The type of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// [`Value::Uint64`].
    Uint64,
    /// [`Value::Float64`].
    Float64,
    /// [`Value::Histogram`].
    Histogram,
}

/// The value of a metric.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A number of things.
    Uint64(u64),
    /// A time, in seconds.
    Float64(f64),
    /// How often which durations occurred. The size of the others is that of a word, so it is in a box.
    Histogram(Box<Histogram>),
}

impl Value {
    /// The type of this value.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Uint64(_) => Kind::Uint64,
            Value::Float64(_) => Kind::Float64,
            Value::Histogram(_) => Kind::Histogram,
        }
    }
}

/// A metric to be read, and its value. See [`read`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample<'a> {
    /// The name of the metric.
    pub name: &'a str,
    /// The value; `None` before the first [`read`], or if there is no metric of that name.
    pub value: Option<Value>,
}

impl<'a> Sample<'a> {
    /// A sample that was not read yet.
    pub fn new(name: &'a str) -> Sample<'a> {
        Sample { name, value: None }
    }
}

/// All metrics, sorted by name.
///
/// ```
/// for metric in gort::metrics::all() {
///     println!("{}: {}", metric.name, metric.help);
/// }
/// ```
pub fn all() -> &'static [Description] {
    &describe::DESCRIPTIONS
}

/// Reads metrics: sets the value of each sample to that of the metric with its name.
///
/// This calls [`runtime::stats`] once, which looks at every goroutine; the values are
/// as exact as those of `stats`.
pub fn read(samples: &mut [Sample<'_>]) {
    let facts = Facts::collect();
    for sample in samples {
        sample.value = find(sample.name).map(|metric| (metric.value)(&facts));
    }
}

/// The value of one metric; `None` if there is no metric of that name.
pub fn get(name: &str) -> Option<Value> {
    let mut sample = [Sample::new(name)];
    read(&mut sample);
    let [sample] = sample;
    sample.value
}

fn find(name: &str) -> Option<&'static Metric> {
    let index = METRICS.binary_search_by(|metric| metric.name.cmp(name)).ok()?;
    METRICS.get(index)
}

/// What all metrics are computed from.
struct Facts {
    stats: Stats,
    goroutines: usize,
    procs: usize,
}

impl Facts {
    fn collect() -> Facts {
        Facts { stats: runtime::stats(), goroutines: runtime::num_goroutines(), procs: runtime::max_procs() }
    }

    /// Number and total time (s) of waits for the reason.
    fn waits(&self, reason: &str) -> (u64, f64) {
        let found = self.stats.waits.iter().find(|waits| waits.reason == reason);
        found.map_or((0, 0.0), |waits| (waits.count, waits.time.as_secs_f64()))
    }
}
