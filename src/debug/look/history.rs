//! The samples of the last seconds. A thread makes them while somebody looks, and ends when nobody does (L4).
//!
//! Samples and facts are kept as the JSON that is sent. Samples (Ps, Ms, queues) are made twenty times a
//! second, so that one can step through what happened. Facts (counters, histograms, states of goroutines) are
//! made twice a second; they need a look at all goroutines, or the last one again (L3).

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use super::{lock, machine, table};
use crate::debug::http::listener::STACK;
use crate::debug::json::Json;
use crate::runtime::{self, Histogram};
use crate::sched::machine::SCHED;
use crate::sys::thread;

/// The pause between two samples.
const EVERY: Duration = Duration::from_millis(50);
/// Facts are made with every tenth sample.
const FACTS: u64 = 10;
/// How long samples are kept.
const KEPT: Duration = Duration::from_secs(60);
/// The most memory for samples (bytes): with hundreds of Ps, fewer seconds are kept.
const MOST: usize = 8 << 20;
/// How long nobody must have asked before the thread ends.
const FORGET_AFTER: Duration = Duration::from_secs(5);
/// How long the first request waits for the first sample.
const FIRST_WITHIN: Duration = Duration::from_secs(2);

static HISTORY: Mutex<History> = Mutex::new(History::new());
static GROWN: Condvar = Condvar::new();

struct History {
    samples: VecDeque<Entry>,
    facts: VecDeque<Entry>,
    /// Bytes in `samples`.
    size: usize,
    /// The number of the last sample; it grows also over pauses, so a page sees what it has missed.
    number: u64,
    begin: Option<Instant>,
    /// When somebody asked last, while the thread runs.
    asked: Option<Instant>,
}

struct Entry {
    number: u64,
    at: Duration,
    json: String,
}

impl History {
    const fn new() -> History {
        History {
            samples: VecDeque::new(),
            facts: VecDeque::new(),
            size: 0,
            number: 0,
            begin: None,
            asked: None,
        }
    }

    fn forget(&mut self) {
        *self = History { number: self.number, begin: self.begin, ..History::new() };
    }

    fn add(&mut self, sample: Entry, facts: Option<Entry>) {
        let oldest = sample.at.saturating_sub(KEPT);
        self.size += sample.json.len();
        self.number = sample.number;
        self.samples.push_back(sample);
        self.facts.extend(facts);
        while let Some(first) = self.samples.front().filter(|f| f.at < oldest || self.size > MOST) {
            self.size -= first.json.len();
            self.samples.pop_front();
        }
        while self.facts.front().is_some_and(|first| first.at < oldest) {
            self.facts.pop_front();
        }
    }
}

/// Somebody looks: starts the thread, if it does not run.
pub(in crate::debug) fn look() -> std::io::Result<()> {
    look_with(&mut lock(&HISTORY))
}

fn look_with(history: &mut History) -> std::io::Result<()> {
    let runs = history.asked.replace(Instant::now()).is_some();
    if runs {
        return Ok(());
    }
    thread::start("gort-debug", STACK, || SCHED.platform.observers.observe(run))
        .inspect_err(|_| history.asked = None)
}

/// What happened after the sample with the number `since`, as JSON.
pub(in crate::debug) fn since(since: u64) -> std::io::Result<String> {
    let mut history = lock(&HISTORY);
    look_with(&mut history)?;
    let empty = |history: &mut History| history.samples.is_empty();
    let (history, _late) = GROWN
        .wait_timeout_while(history, FIRST_WITHIN, empty)
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let newer = |entries: &VecDeque<Entry>, json: &mut Json| {
        let from = entries.partition_point(|entry| entry.number <= since);
        entries.range(from..).for_each(|entry| json.raw(&entry.json));
    };
    let mut json = Json::new();
    json.object(|json| {
        json.key("program").string(&program());
        json.key("pid").value(std::process::id());
        json.key("version").string(env!("CARGO_PKG_VERSION"));
        json.key("last").value(history.number);
        json.key("samples").array(|json| newer(&history.samples, json));
        json.key("facts").array(|json| newer(&history.facts, json));
    });
    Ok(json.finish())
}

/// The name of the program's file.
pub(in crate::debug) fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    std::path::Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The thread: makes samples until nobody has asked for a while.
fn run() {
    let (mut number, begin) = {
        let mut history = lock(&HISTORY);
        (history.number, *history.begin.get_or_insert_with(Instant::now))
    };
    let mut next = Instant::now();
    loop {
        number += 1;
        let at = begin.elapsed();
        let millis = at.as_millis() as u64;
        let sample = Entry { number, at, json: machine::sample(number, millis) };
        let facts = (number % FACTS == 1 || lock(&HISTORY).facts.is_empty()).then(|| Entry {
            number,
            at,
            json: facts(millis),
        });
        let mut history = lock(&HISTORY);
        history.add(sample, facts);
        GROWN.notify_all();
        if history.asked.is_none_or(|asked| asked.elapsed() > FORGET_AFTER) {
            history.forget();
            drop(history);
            table::forget();
            return;
        }
        drop(history);
        // A sample that took long, with very many Ps, must not take all of a core.
        let took = begin.elapsed() - at;
        next = (next + EVERY).max(Instant::now() + took);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Counters, histograms, and the goroutines by state and wait reason.
fn facts(now: u64) -> String {
    let stats = runtime::counters();
    let table = table::latest();
    let mut json = Json::new();
    json.object(|json| {
        json.key("t").value(now);
        let counters = [
            ("created", stats.created),
            ("ended", stats.ended),
            ("steals", stats.steals),
            ("stolen", stats.stolen),
            ("handOffs", stats.hand_offs),
            ("preempted", stats.preempted),
            ("preemptedBySignal", stats.preempted_by_signal),
            ("parks", stats.parks),
            ("yields", stats.yields),
            ("spins", stats.spins),
            ("blockingCalls", stats.blocking_calls),
            ("unmarkedCalls", stats.unmarked_calls),
            ("overflows", stats.overflows),
            ("stalls", stats.stalls),
        ];
        counters.iter().for_each(|(name, count)| json.key(name).value(count));
        json.key("threads").value(stats.threads.alive);
        json.key("goroutines").value(table.len());
        json.key("states").object(|json| {
            table.states().iter().for_each(|(state, count)| json.key(state).value(count));
        });
        json.key("reasons").object(|json| {
            table.reasons().iter().for_each(|(reason, count)| json.key(reason).value(count));
        });
        json.key("latencies");
        write_histogram(&stats.latencies, json);
        json.key("slices");
        write_histogram(&stats.slices, json);
    });
    json.finish()
}

/// Pairs: the shortest duration (ns) of a bucket, and how many were counted since the start.
fn write_histogram(histogram: &Histogram, json: &mut Json) {
    json.array(|json| {
        for (duration, count) in histogram.buckets() {
            json.array(|json| {
                json.value(duration.as_nanos());
                json.value(count);
            });
        }
    });
}
