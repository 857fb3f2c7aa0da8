//! Metrics: every name has a value, the values are those of `runtime::stats`, and the text for Prometheus is
//! what its parsers accept.

#[path = "../common/mod.rs"]
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use common::{Watchdog, alone, join_all, until};
use gort::metrics::{self, Kind, Sample, Value};
use gort::runtime::stats;

/// The families of a text in Prometheus' format: type, and the samples by series name and labels.
type Families = BTreeMap<String, (String, Vec<Line>)>;

/// A sample: name, labels, value.
#[derive(Clone, Debug)]
struct Line {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

fn is_name(name: &str) -> bool {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == ':');
    first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

/// Parses `{name="value",…}`; escapes in values are those of the format.
fn labels(text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    _ => return None,
                }),
                (_, '\n') => return None,
                (_, c) => value.push(c),
            }
        };
        if !is_name(name) || name.contains(':') || labels.insert(name.to_owned(), value).is_some() {
            return None;
        }
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some((labels, rest.strip_prefix('}')?)),
        }
    }
}

fn sample(line: &str) -> Option<Line> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.strip_prefix(' ')?;
    // Exactly one value, no timestamp.
    let value = if value == "+Inf" { f64::INFINITY } else { value.parse().ok()? };
    is_name(name).then(|| Line { name: name.to_owned(), labels, value })
}

/// Parses the text strictly: each family has HELP and TYPE, in this order, before its samples, which follow
/// without a gap; no series comes twice.
fn parse(text: &str) -> Families {
    assert!(text.ends_with('\n'), "the last line does not end");
    let mut families = Families::new();
    let mut seen = BTreeSet::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let help = line.strip_prefix("# HELP ").unwrap_or_else(|| panic!("not a HELP: {line}"));
        let (name, help) = help.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
        assert!(is_name(name) && !help.is_empty(), "{line}");
        let line = lines.next().unwrap_or_default();
        let kind = line.strip_prefix(&format!("# TYPE {name} ")).unwrap_or_else(|| panic!("{line}"));
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
        let mut own = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let found = sample(line).unwrap_or_else(|| panic!("not a sample: {line}"));
            let suffix = found.name.strip_prefix(name).unwrap_or_else(|| panic!("{line} is not of {name}"));
            let allowed: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(allowed.contains(&suffix), "{line}");
            assert!(seen.insert((found.name.clone(), found.labels.clone())), "twice: {line}");
            own.push(found);
        }
        assert!(!own.is_empty(), "{name} has no samples");
        assert!(kind != "counter" || name.ends_with("_total"), "a counter without _total: {name}");
        let former = families.insert(name.to_owned(), (kind.to_owned(), own));
        assert!(former.is_none(), "twice: {name}");
    }
    families
}

/// The number of a family that has one sample.
fn single(families: &Families, name: &str) -> f64 {
    match &families.get(name).unwrap_or_else(|| panic!("no {name}")).1[..] {
        [line] => line.value,
        lines => panic!("{lines:?}"),
    }
}

fn check_histogram(name: &str, lines: &[Line]) {
    let of = |suffix: &'static str| lines.iter().filter(move |line| line.name == format!("{name}{suffix}"));
    let buckets: Vec<(f64, f64)> = of("_bucket")
        .map(|line| {
            let le = &line.labels["le"];
            (if le == "+Inf" { f64::INFINITY } else { le.parse().unwrap() }, line.value)
        })
        .collect();
    assert!(buckets.len() > 10, "{name}");
    assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "not cumulative: {buckets:?}");
    let (count, sum) = (of("_count").next().unwrap().value, of("_sum").next().unwrap().value);
    assert_eq!(*buckets.last().unwrap(), (f64::INFINITY, count), "{name}");
    // No more can have been counted than the buckets allow, and no less.
    let mut before = (0.0, 0.0);
    let (mut least, mut most) = (0.0, 0.0);
    for (le, total) in buckets {
        let here = total - before.1;
        (least, most) = (least + here * before.0, if here == 0.0 { most } else { most + here * le });
        before = (le, total);
    }
    assert!(least <= sum * 1.000_001 && sum <= most * 1.000_001, "{name}: {least} <= {sum} <= {most}");
}

fn work() {
    gort::run(|| {
        let (sender, receiver) = gort::chan::bounded::<u32>(0);
        let all: Vec<_> = (0..200)
            .map(|n| {
                let sender = sender.clone();
                gort::spawn(move || {
                    gort::yield_now();
                    sender.send(n).unwrap();
                })
            })
            .collect();
        drop(sender);
        assert_eq!(receiver.iter().count(), 200);
        join_all(all);
    });
}

fn number(name: &str) -> u64 {
    match metrics::get(name) {
        Some(Value::Uint64(number)) => number,
        other => panic!("{name}: {other:?}"),
    }
}

fn time(name: &str) -> f64 {
    match metrics::get(name) {
        Some(Value::Float64(number)) => number,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_metric_has_a_value_of_its_kind_and_unknown_names_have_none() {
    let all = metrics::all();
    assert!(
        all.is_sorted_by(|a, b| a.name < b.name),
        "{:#?}",
        all.iter().map(|m| m.name).collect::<Vec<_>>()
    );
    let mut samples: Vec<_> = all.iter().map(|metric| Sample::new(metric.name)).collect();
    metrics::read(&mut samples);
    for (metric, sample) in all.iter().zip(&samples) {
        let value = sample.value.as_ref().unwrap_or_else(|| panic!("{} has no value", metric.name));
        assert_eq!(value.kind(), metric.kind, "{}", metric.name);
        assert_eq!(metric.name.rsplit_once(':').unwrap().1, metric.unit);
        assert!(metric.name.starts_with('/') && metric.help.ends_with('.'), "{metric:?}");
        assert!(metric.kind != Kind::Histogram || metric.cumulative);
    }
    for unknown in ["", "/", "/sched/goroutines", "/sched/goroutines:goroutines ", "x"] {
        assert_eq!(metrics::get(unknown), None, "{unknown:?}");
    }
}

#[test]
fn there_are_metrics_for_every_wait_reason() {
    let names: BTreeSet<_> = metrics::all().iter().map(|metric| metric.name).collect();
    let text = metrics::prometheus();
    let reasons = stats().waits;
    for waits in &reasons {
        assert!(text.contains(&format!("gort_waits_total{{reason=\"{}\"}}", waits.reason)), "{waits:?}");
        assert!(
            text.contains(&format!("gort_wait_seconds_total{{reason=\"{}\"}}", waits.reason)),
            "{waits:?}"
        );
    }
    assert_eq!(names.iter().filter(|name| name.starts_with("/gort/waits/")).count(), 2 * reasons.len());
}

#[test]
fn values_agree_with_the_statistics() {
    if !alone("values_agree_with_the_statistics") {
        return;
    }
    let _watchdog = Watchdog::start();
    work();
    // Nothing runs now, so two looks one after the other agree; threads may still go to sleep.
    until("both agree", || {
        let (before, text) = (stats(), metrics::prometheus());
        let families = parse(&text);
        let pairs = [
            (
                "/sched/goroutines-created:goroutines",
                "go_sched_goroutines_created_goroutines_total",
                before.created,
            ),
            ("/gort/goroutines-ended:goroutines", "gort_goroutines_ended_goroutines_total", before.ended),
            ("/gort/sched/parks:parks", "gort_sched_parks_total", before.parks),
            ("/gort/sched/yields:yields", "gort_sched_yields_total", before.yields),
            ("/gort/sched/spins:spins", "gort_sched_spins_total", before.spins),
            ("/gort/stacks/cached:stacks", "gort_stacks_cached_stacks", before.stacks.cached as u64),
            ("/gort/stacks/in-use:stacks", "gort_stacks_in_use_stacks", before.stacks.in_use as u64),
            (
                "/sched/goroutines/waiting:goroutines",
                "go_sched_goroutines_waiting_goroutines",
                before.goroutines.waiting as u64,
            ),
            (
                "/sched/threads/total:threads",
                "go_sched_threads_total_threads",
                (before.threads.alive + before.threads.service) as u64,
            ),
        ];
        pairs
            .iter()
            .all(|&(name, family, value)| number(name) == value && single(&families, family) == value as f64)
    });
    assert!(stats().created >= 200 && stats().parks >= 100, "{:?}", stats());
    assert_eq!(number("/sched/gomaxprocs:threads"), gort::runtime::max_procs() as u64);
    let Some(Value::Histogram(latencies)) = metrics::get("/sched/latencies:seconds") else { panic!() };
    assert_eq!(latencies.count(), stats().latencies.count());
}

#[test]
fn the_text_for_prometheus_is_valid() {
    for _ in 0..5 {
        work();
    }
    let families = parse(&metrics::prometheus());
    for (name, (kind, lines)) in &families {
        if kind == "histogram" {
            check_histogram(name, lines);
        }
        assert!(lines.iter().all(|line| line.value >= 0.0), "{name}");
    }
    let kinds = |kind: &str| families.values().filter(|family| family.0 == kind).count();
    assert_eq!(kinds("histogram"), 2);
    assert!(kinds("counter") > 10 && kinds("gauge") > 10);
    assert!(families["go_sched_latencies_seconds"].1.iter().any(|line| line.value > 0.0));
}

#[test]
fn the_cpu_time_of_labels_is_shown_whatever_they_are_called() {
    const ODD: &str = "a \"b\" \\n\n=,{}";
    let of_labels = || {
        let families = parse(&metrics::prometheus());
        let lines = families.get("gort_label_cpu_seconds_total").map_or(&[][..], |family| &family.1);
        let of = |value: &str| lines.iter().find(|line| line.labels["value"] == value).map(|line| line.value);
        (of(ODD), of("both"), single(&families, "go_cpu_classes_user_cpu_seconds_total"))
    };
    let builder = gort::Builder::new().label(ODD, ODD).label("set", "both");
    let work = move || {
        until("both labels are charged, the same", || {
            let (odd, both, all) = of_labels();
            odd.is_some_and(|odd| odd > 0.0 && odd <= all) && odd == both
        });
    };
    builder.spawn(work).unwrap().join().unwrap();
    assert!(time("/cpu/classes/user:cpu-seconds") > 0.0 && time("/gort/cpu/runtime:cpu-seconds") > 0.0);
}

#[test]
#[should_panic(expected = "not a sample")]
fn the_parser_of_this_test_is_strict() {
    parse("# HELP a b\n# TYPE a gauge\na{x=\"1} 2\n");
}

#[test]
fn waits_are_measured_by_reason_and_only_while_it_is_wanted() {
    if !alone("waits_are_measured_by_reason_and_only_while_it_is_wanted") {
        return;
    }
    let _watchdog = Watchdog::start();
    const WAIT: Duration = Duration::from_millis(20);
    let contend = || {
        gort::run(|| {
            let lock = gort::sync::Mutex::new(());
            gort::scope(|scope| {
                let held = lock.lock();
                let waiter = scope.spawn(|| drop(lock.lock()));
                until("it waits for the lock", || {
                    gort::runtime::dump().goroutines().iter().any(|g| g.state() == "sync.Mutex.Lock")
                });
                gort::sleep(WAIT);
                drop(held);
                waiter.join().unwrap();
            });
        });
    };
    contend();
    assert!(
        stats().waits.iter().all(|waits| waits.count == 0 && waits.time.is_zero()),
        "{:?}",
        stats().waits
    );
    assert!(!metrics::record_waits(true));
    contend();
    assert!(metrics::record_waits(false));
    // The holder slept while the other one waited for the lock.
    let of = |reason: &str| *stats().waits.iter().find(|waits| waits.reason == reason).unwrap();
    assert_eq!(of("sync.Mutex.Lock").count, 1, "{:?}", stats().waits);
    // A wait is measured from the moment at which the goroutine stops, which is later than it reads the clock
    // for its sleep.
    assert!(of("sleep").count >= 1 && !of("sleep").time.is_zero(), "{:?}", stats().waits);
    if of("sleep").count == 1 {
        assert!(of("sync.Mutex.Lock").time >= of("sleep").time, "{:?}", stats().waits);
    }
    assert_eq!(of("chan receive").count, 0);
    assert_eq!(number("/gort/waits/mutex/count:waits"), 1);
    assert_eq!(time("/gort/waits/mutex/total:seconds"), of("sync.Mutex.Lock").time.as_secs_f64());
    assert_eq!(time("/sync/mutex/wait/total:seconds"), time("/gort/waits/mutex/total:seconds"));
    let measured = stats().waits;
    contend();
    assert_eq!(stats().waits, measured, "waits that began after the end were measured");
}

#[test]
fn the_documented_table_is_the_real_one() {
    let mut table = String::from("| name | kind | total | meaning |\n| --- | --- | --- | --- |\n");
    for metric in metrics::all() {
        let kind = match metric.kind {
            Kind::Float64 => "float",
            Kind::Histogram => "histogram",
            _ => "integer",
        };
        let total = if metric.cumulative { "yes" } else { "" };
        table.push_str(&format!("| `{}` | {kind} | {total} | {} |\n", metric.name, metric.help));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/metrics/table.md");
    if std::env::var_os("UPDATE_METRICS").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let documented = std::fs::read_to_string(&path).unwrap();
    assert_eq!(documented, table, "run this test with UPDATE_METRICS=1 to write src/metrics/table.md");
}
