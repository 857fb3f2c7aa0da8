//! The export for ui.perfetto.dev: Chrome's JSON trace event format.
//!
//! Process 1 has a track for each P, with a slice for each goroutine that ran there, and the runtime's own
//! work; arrows lead from where a goroutine was unblocked to where it ran. Process 2 has a track for each of
//! the goroutines that ran longest, with its states and regions. Tasks are asynchronous slices. Two counters
//! tell how many goroutines were runnable and running.

use std::io::{Result, Write};

use gort_trace::{Cause, NONE, Span, State, Trace};
use serde_json::{Value, json};

use super::{ByGoroutine, word};

/// Perfetto becomes slow with more tracks than this.
const GOROUTINE_TRACKS: usize = 1_000;
/// At most this many arrows: Perfetto keeps all of them in memory.
const ARROWS: usize = 100_000;
/// The counters have at most this many points.
const POINTS: u64 = 20_000;
/// The track of process 1 with collections and stopped worlds. Ps have the numbers from 1.
const RUNTIME_TRACK: u32 = 0;

struct Export<'t, 'a> {
    out: &'t mut dyn Write,
    trace: &'t Trace<'a>,
    is_first: bool,
}

pub(super) fn write(out: &mut dyn Write, trace: &Trace<'_>) -> Result<()> {
    let spans = ByGoroutine::new(trace);
    let mut export = Export { out, trace, is_first: true };
    write!(export.out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    export.names()?;
    export.procs()?;
    export.arrows(&spans)?;
    export.goroutines(&spans)?;
    export.tasks()?;
    export.counters()?;
    writeln!(export.out, "\n]}}")
}

/// Nanoseconds as the format's microseconds.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl Export<'_, '_> {
    fn event(&mut self, event: &Value) -> Result<()> {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        write!(self.out, "{comma}\n{event}")
    }

    fn track(&mut self, pid: u32, tid: u32, name: &str) -> Result<()> {
        self.event(
            &json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}),
        )?;
        let order = json!({"sort_index": tid});
        self.event(&json!({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": order}))
    }

    fn slice(&mut self, track: (u32, u32), name: &str, from: u64, to: u64, args: &Value) -> Result<()> {
        let (pid, tid) = track;
        let (ts, dur) = (micros(from), micros(to.saturating_sub(from)));
        self.event(
            &json!({"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}),
        )
    }

    fn names(&mut self) -> Result<()> {
        for (pid, name) in [(1, "Processors"), (2, "Goroutines"), (3, "Tasks")] {
            self.event(&json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}))?;
        }
        self.track(1, RUNTIME_TRACK, "runtime")?;
        let trace = self.trace;
        for (index, proc) in trace.procs.iter().enumerate() {
            self.track(1, index as u32 + 1, &format!("P {}", proc.id))?;
        }
        Ok(())
    }

    fn goroutine(&self, g: u32) -> String {
        let id = self.trace.goroutine_id(g).unwrap_or(0);
        format!("G{id} {}", self.trace.goroutine_name(g))
    }

    /// The stack as the format's users read it: the innermost frame first.
    fn stack(&self, span: &Span) -> Vec<String> {
        let strings = &self.trace.strings;
        let frames = self.trace.stacks.get(span.stack);
        frames.map(|f| format!("{} {}:{}", strings.get(f.function), strings.get(f.file), f.line)).collect()
    }

    fn procs(&mut self) -> Result<()> {
        let trace = self.trace;
        for span in trace.spans.iter().filter(|span| span.p != NONE) {
            let name = match span.state {
                State::Syscall => format!("call: {}", self.goroutine(span.g)),
                _ => self.goroutine(span.g),
            };
            let args = match span.state {
                State::Syscall => json!({"stack": self.stack(span)}),
                _ => json!({}),
            };
            self.slice((1, span.p + 1), &name, span.start, span.end, &args)?;
        }
        for range in &trace.ranges {
            let name = trace.strings.get(range.name);
            self.slice((1, RUNTIME_TRACK), name, range.start, range.end, &json!({}))?;
        }
        Ok(())
    }

    /// From the P on which a goroutine unblocked another one to the P on which that one then ran.
    fn arrows(&mut self, spans: &ByGoroutine) -> Result<()> {
        let trace = self.trace;
        let mut count = 0;
        for g in 0..trace.goroutines.len() as u32 {
            for pair in spans.of(g).windows(2) {
                let [runnable, running] = [pair[0], pair[1]].map(|number| &trace.spans[number as usize]);
                let woken = matches!(runnable.cause, Cause::Unblocked | Cause::Created);
                if !woken || runnable.by == NONE || running.state != State::Running || count == ARROWS {
                    continue;
                }
                let wakers = spans.of(runnable.by);
                let at = wakers.partition_point(|&n| trace.spans[n as usize].end < runnable.start);
                let Some(waker) = wakers.get(at).map(|&n| &trace.spans[n as usize]) else { continue };
                if waker.p == NONE || waker.start > runnable.start {
                    continue;
                }
                count += 1;
                for (phase, p, time) in [("s", waker.p, runnable.start), ("f", running.p, running.start)] {
                    self.event(&json!({
                        "ph": phase, "bp": "e", "id": count, "cat": "wake", "name": "wake",
                        "pid": 1, "tid": p.wrapping_add(1), "ts": micros(time),
                    }))?;
                }
            }
        }
        Ok(())
    }

    fn goroutines(&mut self, spans: &ByGoroutine) -> Result<()> {
        let trace = self.trace;
        let ran = |g: u32| -> u64 {
            let own = spans.of(g).iter().map(|&number| &trace.spans[number as usize]);
            own.filter(|span| span.state == State::Running).map(Span::length).fold(0, u64::saturating_add)
        };
        let mut busiest: Vec<(u64, u32)> = (0..trace.goroutines.len() as u32).map(|g| (ran(g), g)).collect();
        busiest.sort_by_key(|&(ran, g)| (std::cmp::Reverse(ran), g));
        busiest.truncate(GOROUTINE_TRACKS);
        let mut shown = vec![false; trace.goroutines.len()];
        for &(_, g) in &busiest {
            shown[g as usize] = true;
            let name = self.goroutine(g);
            self.track(2, g + 1, &name)?;
            for &number in spans.of(g) {
                let span = &trace.spans[number as usize];
                let reason = trace.strings.get(span.reason);
                let name = match reason {
                    "" => word(span.state).to_string(),
                    reason => format!("{}: {reason}", word(span.state)),
                };
                let by = trace.goroutine_id(span.by);
                let args = json!({"stack": self.stack(span), "by": by});
                self.slice((2, g + 1), &name, span.start, span.end, &args)?;
            }
        }
        for (index, region) in trace.regions.iter().enumerate() {
            if !shown.get(region.g as usize).is_some_and(|&shown| shown) {
                continue;
            }
            let name = trace.strings.get(region.name);
            for (phase, time) in [("b", region.start), ("e", region.end.unwrap_or(trace.end))] {
                self.event(&json!({
                    "ph": phase, "cat": "region", "name": name, "id": format!("r{index}"),
                    "pid": 2, "tid": region.g + 1, "ts": micros(time),
                }))?;
            }
        }
        Ok(())
    }

    fn tasks(&mut self) -> Result<()> {
        let trace = self.trace;
        for (index, task) in trace.tasks.iter().enumerate() {
            let name = trace.strings.get(task.name);
            for (phase, time) in [("b", task.start), ("e", task.end.unwrap_or(trace.end))] {
                self.event(&json!({
                    "ph": phase, "cat": "task", "name": name, "id": format!("t{index}"), "pid": 3, "tid": 1,
                    "ts": micros(time), "args": {"task": task.id, "parent": task.parent},
                }))?;
            }
        }
        Ok(())
    }

    fn counters(&mut self) -> Result<()> {
        let trace = self.trace;
        let mut edges: Vec<(u64, i8, i8)> = Vec::new();
        for span in &trace.spans {
            let (runnable, running) = match span.state {
                State::Runnable => (1, 0),
                State::Running => (0, 1),
                State::Syscall | State::Waiting => continue,
            };
            edges.push((span.start, runnable, running));
            edges.push((span.end, -runnable, -running));
        }
        edges.sort_unstable();
        let step = trace.end / POINTS;
        let (mut runnable, mut running, mut next) = (0_i64, 0_i64, 0);
        for (index, &(time, a, b)) in edges.iter().enumerate() {
            (runnable, running) = (runnable + i64::from(a), running + i64::from(b));
            let is_last = edges.get(index + 1).is_none_or(|&(later, ..)| later > time);
            if is_last && time >= next {
                next = time.saturating_add(step);
                let args = json!({"runnable": runnable, "running": running});
                self.event(
                    &json!({"ph": "C", "name": "goroutines", "pid": 1, "ts": micros(time), "args": args}),
                )?;
            }
        }
        Ok(())
    }
}
