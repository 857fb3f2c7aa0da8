//! The table of all metrics: name, meaning, and how the value is computed from the runtime's statistics.

use super::{Description, Facts, Kind, Value};
use crate::runtime::Histogram;

/// A metric: its description, where Prometheus finds it, and its value.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
    pub(super) cumulative: bool,
    /// If several metrics are one for Prometheus: its name, and the label that tells them apart.
    pub(super) label: Option<Label>,
    pub(super) value: fn(&Facts) -> Value,
}

/// One of several metrics that are one for Prometheus.
#[derive(Clone, Copy)]
pub(super) struct Label {
    pub(super) family: &'static str,
    pub(super) help: &'static str,
    pub(super) name: &'static str,
    pub(super) value: &'static str,
}

/// The part of the name behind the colon.
const fn unit_of(name: &'static str) -> &'static str {
    let bytes = name.as_bytes();
    let mut at = bytes.len();
    while bytes[at - 1] != b':' {
        at -= 1;
    }
    name.split_at(at).1
}

const fn describe<const N: usize>(metrics: &[Metric; N]) -> [Description; N] {
    const NONE: Description =
        Description { name: "", kind: Kind::Uint64, unit: "", help: "", cumulative: false };
    let mut descriptions = [NONE; N];
    let mut index = 0;
    while index < N {
        let Metric { name, kind, help, cumulative, .. } = metrics[index];
        descriptions[index] = Description { name, kind, unit: unit_of(name), help, cumulative };
        index += 1;
    }
    descriptions
}

/// What users see of [`METRICS`].
pub(super) static DESCRIPTIONS: [Description; COUNT] = describe(&METRICS);

const fn gauge(name: &'static str, help: &'static str, value: fn(&Facts) -> Value) -> Metric {
    Metric { name, kind: Kind::Uint64, help, cumulative: false, label: None, value }
}

const fn total(name: &'static str, help: &'static str, value: fn(&Facts) -> Value) -> Metric {
    Metric { name, kind: Kind::Uint64, help, cumulative: true, label: None, value }
}

const fn seconds(name: &'static str, help: &'static str, value: fn(&Facts) -> Value) -> Metric {
    Metric { name, kind: Kind::Float64, help, cumulative: true, label: None, value }
}

const fn histogram(name: &'static str, help: &'static str, value: fn(&Facts) -> Value) -> Metric {
    Metric { name, kind: Kind::Histogram, help, cumulative: true, label: None, value }
}

fn size(value: usize) -> Value {
    Value::Uint64(value as u64)
}

fn durations(histogram: &Histogram) -> Value {
    Value::Histogram(Box::new(histogram.clone()))
}

const WAITS: Label = Label {
    family: "gort_waits_total",
    help: "Waits of goroutines that have ended, by reason; counted while record_waits is on.",
    name: "reason",
    value: "",
};
const WAIT_TIME: Label = Label {
    family: "gort_wait_seconds_total",
    help: "Time that goroutines spent waiting, by reason; measured while record_waits is on.",
    ..WAITS
};

/// The two metrics of a wait reason.
macro_rules! waits {
    ($name:literal, $reason:literal) => {
        [
            Metric {
                label: Some(Label { value: $reason, ..WAITS }),
                ..total(
                    concat!("/gort/waits/", $name, "/count:waits"),
                    concat!("Waits for \"", $reason, "\" that have ended, while record_waits was on."),
                    |facts| Value::Uint64(facts.waits($reason).0),
                )
            },
            Metric {
                label: Some(Label { value: $reason, ..WAIT_TIME }),
                ..seconds(
                    concat!("/gort/waits/", $name, "/total:seconds"),
                    concat!("Time spent waiting for \"", $reason, "\", while record_waits was on."),
                    |facts| Value::Float64(facts.waits($reason).1),
                )
            },
        ]
    };
}

/// Joins the lists of metrics, which are in order.
const fn join<const N: usize>(lists: &[&[Metric]]) -> [Metric; N] {
    let mut all = [const { gauge("", "", |_| Value::Uint64(0)) }; N];
    let (mut list, mut count) = (0, 0);
    while list < lists.len() {
        let mut index = 0;
        while index < lists[list].len() {
            let Metric { name, kind, help, cumulative, label, value } = lists[list][index];
            all[count] = Metric { name, kind, help, cumulative, label, value };
            (index, count) = (index + 1, count + 1);
        }
        list += 1;
    }
    assert!(count == N);
    all
}

const COUNT: usize = BEFORE_WAITS.len() + 2 * ALL_WAITS.len() + AFTER_WAITS.len();

/// All metrics, sorted by name.
pub(super) static METRICS: [Metric; COUNT] = {
    let mut lists: [&[Metric]; ALL_WAITS.len() + 2] = [&[]; ALL_WAITS.len() + 2];
    lists[0] = &BEFORE_WAITS;
    let mut index = 0;
    while index < ALL_WAITS.len() {
        lists[index + 1] = &ALL_WAITS[index];
        index += 1;
    }
    lists[ALL_WAITS.len() + 1] = &AFTER_WAITS;
    join(&lists)
};

const BEFORE_WAITS: [Metric; 29] = [
    seconds(
        "/cpu/classes/user:cpu-seconds",
        "CPU time that goroutines have used, with their system calls.",
        |facts| Value::Float64(facts.stats.cpu.goroutines.as_secs_f64()),
    ),
    total("/gort/calls/marked:calls", "Calls of gort::blocking by goroutines.", |facts| {
        Value::Uint64(facts.stats.blocking_calls)
    }),
    seconds(
        "/gort/calls/unmarked/total:seconds",
        "How long the unmarked blocking calls that have ended took together.",
        |facts| Value::Float64(facts.stats.unmarked_time.as_secs_f64()),
    ),
    total(
        "/gort/calls/unmarked:calls",
        "Blocking calls that were not marked, and from which the runtime took the processor.",
        |facts| Value::Uint64(facts.stats.unmarked_calls),
    ),
    seconds(
        "/gort/cpu/runtime:cpu-seconds",
        "CPU time that the runtime has used itself: looking for work, starting and ending threads, watching.",
        |facts| Value::Float64(facts.stats.cpu.runtime.as_secs_f64()),
    ),
    total("/gort/goroutines-ended:goroutines", "Goroutines that have ended.", |facts| {
        Value::Uint64(facts.stats.ended)
    }),
    gauge(
        "/gort/goroutines/preempted:goroutines",
        "Goroutines that a signal stopped; they are among the runnable ones.",
        |facts| size(facts.stats.goroutines.preempted),
    ),
    gauge("/gort/queues/global:goroutines", "Goroutines in the queue that all processors share.", |facts| {
        size(facts.stats.global_queue)
    }),
    gauge("/gort/queues/local:goroutines", "Goroutines in the queues of all processors together.", |facts| {
        size(facts.stats.local_queues.iter().sum())
    }),
    gauge("/gort/queues/longest:goroutines", "Goroutines in the longest queue of a processor.", |facts| {
        size(facts.stats.local_queues.iter().copied().max().unwrap_or(0))
    }),
    gauge(
        "/gort/queues/preempted:goroutines",
        "Goroutines in the queue of those that used up their time slice.",
        |facts| size(facts.stats.hog_queue),
    ),
    total(
        "/gort/sched/hand-offs:hand-offs",
        "How many times a processor passed to another thread because its goroutine blocked or was bound.",
        |facts| Value::Uint64(facts.stats.hand_offs),
    ),
    total(
        "/gort/sched/overflows:overflows",
        "How many times the queue of a processor was full and half of it moved to the shared one.",
        |facts| Value::Uint64(facts.stats.overflows),
    ),
    total("/gort/sched/parks:parks", "How many times a goroutine waited for something.", |facts| {
        Value::Uint64(facts.stats.parks)
    }),
    total(
        "/gort/sched/preemptions/by-flag:preemptions",
        "How many times a goroutine was asked to let others run, and did so at its next call into gort.",
        |facts| Value::Uint64(facts.stats.preempted),
    ),
    total(
        "/gort/sched/preemptions/by-signal:preemptions",
        "How many times a signal stopped a goroutine.",
        |facts| Value::Uint64(facts.stats.preempted_by_signal),
    ),
    histogram(
        "/gort/sched/slices:seconds",
        "How long goroutines ran before they stopped; samples.",
        |facts| durations(&facts.stats.slices),
    ),
    total(
        "/gort/sched/spins:spins",
        "How many times an idle thread began to look for work in the queues of other processors.",
        |facts| Value::Uint64(facts.stats.spins),
    ),
    total(
        "/gort/sched/steals:steals",
        "How many times a processor took goroutines from another one's queue.",
        |facts| Value::Uint64(facts.stats.steals),
    ),
    total(
        "/gort/sched/stolen:goroutines",
        "How many goroutines were taken from another processor's queue.",
        |facts| Value::Uint64(facts.stats.stolen),
    ),
    total("/gort/sched/yields:yields", "Calls of gort::yield_now by goroutines.", |facts| {
        Value::Uint64(facts.stats.yields)
    }),
    gauge("/gort/stacks/cached:stacks", "Stacks of ended goroutines, kept for new ones.", |facts| {
        size(facts.stats.stacks.cached)
    }),
    gauge("/gort/stacks/in-use:stacks", "Stacks of goroutines that exist.", |facts| {
        size(facts.stats.stacks.in_use)
    }),
    total(
        "/gort/stacks/trimmed:stacks",
        "How often the unused part of a stack was given back to the system.",
        |facts| Value::Uint64(facts.stats.stacks.trimmed),
    ),
    total("/gort/stalls:stalls", "Stalls that were reported: see Config::stall_after.", |facts| {
        Value::Uint64(facts.stats.stalls)
    }),
    gauge(
        "/gort/threads/idle:threads",
        "Threads for goroutines that have nothing to do and sleep.",
        |facts| size(facts.stats.threads.idle),
    ),
    gauge("/gort/threads/running:threads", "Threads that run goroutines, or could.", |facts| {
        size(facts.stats.threads.alive)
    }),
    gauge("/gort/threads/service:threads", "Threads of the runtime that never run goroutines.", |facts| {
        size(facts.stats.threads.service)
    }),
    gauge("/gort/threads/spinning:threads", "Threads that look for work.", |facts| {
        size(facts.stats.threads.spinning)
    }),
];

/// Sorted by name; each reason of `WaitReason` once.
const ALL_WAITS: [[Metric; 2]; 25] = [
    waits!("barrier", "barrier wait"),
    waits!("bubble", "bubble wait"),
    waits!("chan-receive", "chan receive"),
    waits!("chan-send", "chan send"),
    waits!("cond", "sync.Cond.Wait"),
    waits!("context", "context wait"),
    waits!("fork-goroutine", "fork goroutine (idle)"),
    waits!("futex", "sync (futex)"),
    waits!("future-goroutine", "future goroutine (idle)"),
    waits!("future", "future wait"),
    waits!("group", "group wait"),
    waits!("io-read", "IO wait (read)"),
    waits!("io-write", "IO wait (write)"),
    waits!("join", "join"),
    waits!("mutex", "sync.Mutex.Lock"),
    waits!("once", "sync.Once.Do"),
    waits!("rwmutex-read", "sync.RWMutex.RLock"),
    waits!("rwmutex-write", "sync.RWMutex.Lock"),
    waits!("scope", "scope wait"),
    waits!("select-no-cases", "select (no cases)"),
    waits!("select", "select"),
    waits!("semaphore", "semacquire"),
    waits!("sleep", "sleep"),
    waits!("timer-goroutine", "timer goroutine (idle)"),
    waits!("waitgroup", "sync.WaitGroup.Wait"),
];

const AFTER_WAITS: [Metric; 10] = [
    gauge("/sched/gomaxprocs:threads", "How many goroutines run at the same time at most.", |facts| {
        size(facts.procs)
    }),
    total("/sched/goroutines-created:goroutines", "Goroutines spawned.", |facts| {
        Value::Uint64(facts.stats.created)
    }),
    gauge("/sched/goroutines/not-in-go:goroutines", "Goroutines in a blocking call.", |facts| {
        size(facts.stats.goroutines.syscall)
    }),
    gauge(
        "/sched/goroutines/runnable:goroutines",
        "Goroutines that are ready to run and wait for a processor.",
        |facts| size(facts.stats.goroutines.runnable + facts.stats.goroutines.preempted),
    ),
    gauge("/sched/goroutines/running:goroutines", "Goroutines that run.", |facts| {
        size(facts.stats.goroutines.running)
    }),
    gauge(
        "/sched/goroutines/waiting:goroutines",
        "Goroutines that wait for a channel, a lock, a timer, I/O and so on.",
        |facts| size(facts.stats.goroutines.waiting),
    ),
    gauge("/sched/goroutines:goroutines", "Goroutines that exist.", |facts| size(facts.goroutines)),
    histogram(
        "/sched/latencies:seconds",
        "How long goroutines were runnable before they ran; samples.",
        |facts| durations(&facts.stats.latencies),
    ),
    gauge("/sched/threads/total:threads", "Threads of the runtime.", |facts| {
        size(facts.stats.threads.alive + facts.stats.threads.service)
    }),
    seconds(
        "/sync/mutex/wait/total:seconds",
        "Time spent waiting for a Mutex or an RwLock, while record_waits was on.",
        |facts| {
            let locks = ["sync.Mutex.Lock", "sync.RWMutex.RLock", "sync.RWMutex.Lock"];
            Value::Float64(locks.iter().map(|reason| facts.waits(reason).1).sum())
        },
    ),
];
