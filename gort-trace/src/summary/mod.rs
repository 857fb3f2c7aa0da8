//! Figures about a trace, for people (`gort trace`) and machines (`gort trace --json`).

mod blocked;
mod groups;
mod latency;
mod sites;

use serde::Serialize;

use crate::model::{NONE, State, Trace};

/// All figures. Times are in nanoseconds; lists are sorted, the largest first.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// How long the trace is.
    pub span_ns: u64,
    /// Nanoseconds since 1970 at its beginning; 0 if that is out of range.
    pub start_unix_ns: u64,
    /// How many there are of what.
    pub totals: Totals,
    /// What the Ps did, by their numbers.
    pub procs: Vec<ProcUse>,
    /// How long runnable goroutines waited for a P.
    pub latencies: Latencies,
    /// What goroutines waited for.
    pub blocked_by_reason: Vec<Blocked>,
    /// Where goroutines waited.
    pub blocked_by_site: Vec<Blocked>,
    /// System calls and other blocking calls.
    pub calls: Calls,
    /// Tasks by name.
    pub tasks: Vec<Named>,
    /// Regions by name.
    pub regions: Vec<Named>,
    /// Messages that the program wrote.
    pub logs: u64,
    /// Garbage collections, and why the world was stopped.
    pub runtime: Vec<Named>,
    /// Goroutines by the function that they began with.
    pub groups: Vec<Group>,
    /// The functions in which the CPU profiler found goroutines.
    pub samples: Vec<Sampled>,
    /// What is wrong with the file; the figures are about what is before that.
    pub damage: Option<String>,
}

/// How many there are of what.
#[derive(Clone, Debug, Serialize)]
pub struct Totals {
    /// Complete generations.
    pub generations: usize,
    /// Events.
    pub events: u64,
    /// Bytes of all generations.
    pub bytes: u64,
    /// GOMAXPROCS, as it was last told; 0 if it was not.
    pub max_procs: u64,
    /// Ps that appear.
    pub procs: usize,
    /// Ms that appear.
    pub threads: usize,
    /// Goroutines that appear.
    pub goroutines: usize,
    /// Goroutines that were created during the trace.
    pub created: usize,
    /// Goroutines that ended during the trace.
    pub ended: usize,
    /// Samples of the CPU profiler.
    pub samples: usize,
}

/// What a P did. The times add up to the length of the trace.
#[derive(Clone, Debug, Serialize)]
pub struct ProcUse {
    /// Its number.
    pub p: u64,
    /// It ran goroutines.
    pub running_ns: u64,
    /// Its goroutine was in a call, and kept it.
    pub syscall_ns: u64,
    /// An M had it, but no goroutine: the M looked for work.
    pub scheduling_ns: u64,
    /// No M had it.
    pub idle_ns: u64,
    /// How often a goroutine started to run on it.
    pub switches: u64,
    /// How often it was taken from an M in a call.
    pub steals: u64,
}

/// How long runnable goroutines waited for a P.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Latencies {
    /// How often a goroutine was runnable and then ran.
    pub count: u64,
    /// The sum.
    pub total_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// Nine of ten are not longer.
    pub p90_ns: u64,
    /// 99 of 100 are not longer.
    pub p99_ns: u64,
    /// 999 of 1,000 are not longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Goroutines that are still runnable at the end of the trace.
    pub unfinished: u64,
    /// How many are in which range.
    pub histogram: Vec<Range>,
    /// The longest ones.
    pub longest: Vec<Latency>,
}

/// A bar of a histogram.
#[derive(Clone, Debug, Serialize)]
pub struct Range {
    /// At least this long.
    pub from_ns: u64,
    /// Shorter than this.
    pub to_ns: u64,
    /// How many.
    pub count: u64,
}

/// One wait for a P.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// How long it was.
    pub ns: u64,
    /// When it began.
    pub at_ns: u64,
    /// The goroutine's number.
    pub goroutine: u64,
    /// The goroutine's name.
    pub name: String,
    /// What made it runnable.
    pub cause: String,
    /// The number of the goroutine that made it runnable.
    pub by: Option<u64>,
    /// Where that was, or where it was stopped.
    pub site: String,
}

/// Waits for the same reason, or at the same site.
#[derive(Clone, Debug, Serialize)]
pub struct Blocked {
    /// The reason.
    pub reason: String,
    /// The site; empty in a list by reason.
    pub site: String,
    /// How many waits.
    pub count: u64,
    /// The sum.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many of them last at the end of the trace.
    pub unfinished: u64,
}

/// System calls and other blocking calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// The sum.
    pub total_ns: u64,
    /// The part in which the goroutine still had its P.
    pub with_p_ns: u64,
    /// Calls during which the P was taken.
    pub lost_p: u64,
    /// Where they were.
    pub sites: Vec<Blocked>,
}

/// Tasks or regions of the same name.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// The name.
    pub name: String,
    /// How many.
    pub count: u64,
    /// How many of them did not end.
    pub unfinished: u64,
    /// The sum; those that did not end count up to the end of the trace.
    pub total_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Goroutines that began with the same function.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The function.
    pub function: String,
    /// How many goroutines.
    pub count: u64,
    /// They ran.
    pub running_ns: u64,
    /// They waited for a P.
    pub runnable_ns: u64,
    /// They were in calls.
    pub syscall_ns: u64,
    /// They waited for something.
    pub waiting_ns: u64,
}

/// A function in which the CPU profiler found goroutines.
#[derive(Clone, Debug, Serialize)]
pub struct Sampled {
    /// The function.
    pub function: String,
    /// How many samples.
    pub count: u64,
}

/// Computes all figures; lists have at most `top` entries.
pub fn summarise(trace: &Trace<'_>, top: usize) -> Summary {
    let sites = sites::Sites::new(trace);
    let (blocked_by_reason, blocked_by_site) = blocked::waits(trace, &sites, top);
    Summary {
        span_ns: trace.end,
        start_unix_ns: u64::try_from(trace.wall).unwrap_or(0),
        totals: totals(trace),
        procs: procs(trace),
        latencies: latency::latencies(trace, &sites, top),
        blocked_by_reason,
        blocked_by_site,
        calls: blocked::calls(trace, &sites, top),
        tasks: groups::tasks(trace, top),
        regions: groups::regions(trace, top),
        logs: trace.logs.len() as u64,
        runtime: groups::ranges(trace, top),
        groups: groups::by_function(trace, top),
        samples: groups::samples(trace, top),
        damage: trace.damage.as_ref().map(ToString::to_string),
    }
}

fn totals(trace: &Trace<'_>) -> Totals {
    Totals {
        generations: trace.generations.len(),
        events: trace.generations.iter().map(|generation| generation.events).sum(),
        bytes: trace.generations.iter().map(|generation| generation.bytes).sum(),
        max_procs: trace.max_procs.last().map_or(0, |&(_, value)| value),
        procs: trace.procs.len(),
        threads: trace.threads,
        goroutines: trace.goroutines.len(),
        created: trace.goroutines.iter().filter(|goroutine| goroutine.created).count(),
        ended: trace.goroutines.iter().filter(|goroutine| goroutine.ended.is_some()).count(),
        samples: trace.samples.len(),
    }
}

fn procs(trace: &Trace<'_>) -> Vec<ProcUse> {
    let mut list: Vec<ProcUse> = trace
        .procs
        .iter()
        .map(|proc| ProcUse {
            p: proc.id,
            running_ns: 0,
            syscall_ns: 0,
            scheduling_ns: proc.owned,
            idle_ns: trace.end.saturating_sub(proc.owned),
            switches: 0,
            steals: proc.steals,
        })
        .collect();
    for span in trace.spans.iter().filter(|span| span.p != NONE) {
        let Some(used) = list.get_mut(span.p as usize) else { continue };
        let part = if span.state == State::Running { &mut used.running_ns } else { &mut used.syscall_ns };
        *part = part.saturating_add(span.length());
        used.switches += u64::from(span.state == State::Running);
        used.scheduling_ns = used.scheduling_ns.saturating_sub(span.length());
    }
    list.sort_by_key(|used| used.p);
    list
}
