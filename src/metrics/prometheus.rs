//! The text format of Prometheus (version 0.0.4).
//!
//! A name becomes a family by Prometheus' own mapping of Go's names: `/sched/latencies:seconds` is
//! `go_sched_latencies_seconds`, and a number that only grows ends with `_total`. `/gort/…` begins with
//! `gort_` instead. Metrics with a [`Label`] are one family.
//!
//! The runtime's histograms have four buckets for each power of two; the text has one, from [`FIRST`] to
//! [`LAST`]. A bucket of the runtime does not include its upper end, one of Prometheus does: a duration of
//! exactly a power of two nanoseconds counts for the next bucket.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use super::describe::{Label, METRICS, Metric};
use super::{Facts, Kind, Value};
use crate::runtime::Histogram;

/// The family with the CPU time of labels, and the most labels that it shows.
const BY_LABEL: &str = "gort_label_cpu_seconds_total";
const MOST_LABELS: usize = 100;

/// The exponents of the first and the last bucket: 2^8 ns = 256 ns, 2^36 ns = 69 s.
const FIRST: u32 = 8;
const LAST: u32 = 36;

/// All metrics in the text format of Prometheus, version 0.0.4. The content type of an answer with it is
/// `text/plain; version=0.0.4`.
///
/// | here | there |
/// | --- | --- |
/// | `/sched/goroutines:goroutines` | `go_sched_goroutines_goroutines` |
/// | `/sched/goroutines-created:goroutines` | `go_sched_goroutines_created_goroutines_total` |
/// | `/sched/latencies:seconds` | `go_sched_latencies_seconds_bucket`, `…_sum`, `…_count` |
/// | `/gort/sched/steals:steals` | `gort_sched_steals_total` |
/// | `/gort/waits/chan-send/total:seconds` | `gort_wait_seconds_total{reason="chan send"}` |
///
/// `gort_label_cpu_seconds_total{key="tenant",value="acme"}` is the CPU time of goroutines with that label
/// ([`Stats::cpu`](crate::runtime::Stats::cpu)). The 100 labels that have used most are shown.
///
/// ```
/// let text = gort::metrics::prometheus();
/// assert!(text.lines().any(|line| line.starts_with("go_sched_gomaxprocs_threads ")));
/// ```
pub fn prometheus() -> String {
    let facts = Facts::collect();
    let mut text = String::with_capacity(16 << 10);
    let single = METRICS.iter().filter(|metric| metric.label.is_none());
    single.for_each(|metric| write_metric(&mut text, metric, &facts));
    let mut families: Vec<Label> = METRICS.iter().filter_map(|metric| metric.label).collect();
    families.sort_by_key(|label| label.family);
    families.dedup_by_key(|label| label.family);
    families.iter().for_each(|family| write_family(&mut text, family, &facts));
    write_labels(&mut text, &facts);
    text
}

/// The name of the family of a metric without a label.
fn family(metric: &Metric) -> String {
    let name = metric.name.trim_start_matches('/');
    let mut words: Vec<&str> = name.split(['/', '-', ':']).collect();
    let last_two_are_one = words.len() >= 2 && words[words.len() - 1] == words[words.len() - 2];
    if words[0] != "gort" {
        words.insert(0, "go");
    } else if last_two_are_one {
        words.pop(); // gort_sched_steals_steals says the same twice
    }
    if metric.cumulative && metric.kind != Kind::Histogram {
        words.push("total");
    }
    words.join("_")
}

fn write_metric(text: &mut String, metric: &Metric, facts: &Facts) {
    let name = family(metric);
    let kind = match (metric.kind, metric.cumulative) {
        (Kind::Histogram, _) => "histogram",
        (_, true) => "counter",
        (_, false) => "gauge",
    };
    write_head(text, &name, metric.help, kind);
    match (metric.value)(facts) {
        Value::Histogram(histogram) => write_histogram(text, &name, &histogram),
        value => write_line(text, &name, &value),
    }
}

fn write_family(text: &mut String, family: &Label, facts: &Facts) {
    write_head(text, family.family, family.help, "counter");
    for metric in &METRICS {
        if let Some(label) = metric.label.filter(|label| label.family == family.family) {
            // No value has a character that the format wants escaped; a test sees to it.
            let series = format!("{}{{{}=\"{}\"}}", label.family, label.name, label.value);
            write_line(text, &series, &(metric.value)(facts));
        }
    }
}

/// The CPU time of each label of goroutines. A goroutine with several labels counts for each of them.
fn write_labels(text: &mut String, facts: &Facts) {
    let mut times: HashMap<(&str, &str), Duration> = HashMap::new();
    for (labels, time) in &facts.stats.cpu.by_labels {
        labels.iter().for_each(|label| *times.entry(label).or_default() += *time);
    }
    if times.is_empty() {
        return;
    }
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_by_key(|&(label, time)| (Reverse(time), label));
    write_head(text, BY_LABEL, "CPU time of goroutines by label; the largest values.", "counter");
    for ((key, value), time) in times.into_iter().take(MOST_LABELS) {
        let series = format!("{BY_LABEL}{{key=\"{}\",value=\"{}\"}}", escape(key), escape(value));
        write_line(text, &series, &Value::Float64(time.as_secs_f64()));
    }
}

/// A value of a label as the format wants it.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn write_head(text: &mut String, name: &str, help: &str, kind: &str) {
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    // Writing to a String does not fail, here and below.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn write_line(text: &mut String, series: &str, value: &Value) {
    let _ = match value {
        Value::Uint64(number) => writeln!(text, "{series} {number}"),
        Value::Float64(number) => writeln!(text, "{series} {number}"),
        Value::Histogram(_) => unreachable!("no histogram has a label"),
    };
}

fn write_histogram(text: &mut String, name: &str, histogram: &Histogram) {
    let mut buckets = histogram.buckets().peekable();
    let mut count = 0;
    for power in FIRST..=LAST {
        let end = 1u128 << power;
        while let Some((_, more)) = buckets.next_if(|(lower, _)| lower.as_nanos() < end) {
            count += more;
        }
        let _ = writeln!(text, "{name}_bucket{{le=\"{}\"}} {count}", end as f64 / 1e9);
    }
    let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {}", histogram.count());
    let _ = writeln!(text, "{name}_sum {}", histogram.sum().as_secs_f64());
    let _ = writeln!(text, "{name}_count {}", histogram.count());
}
