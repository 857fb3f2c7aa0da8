//! Tasks, regions, collections, goroutines and samples, each grouped by a name.

use std::collections::HashMap;

use super::{Group, Named, Sampled};
use crate::model::{State, Trace};
use crate::tables::StringId;

/// Sums up durations by name. A duration without an end lasts until `end`.
fn by_name(
    trace: &Trace<'_>,
    items: impl Iterator<Item = (StringId, u64, Option<u64>)>,
    top: usize,
) -> Vec<Named> {
    let mut groups: HashMap<StringId, Named> = HashMap::new();
    for (name, start, end) in items {
        let length = end.unwrap_or(trace.end).saturating_sub(start);
        let group = groups.entry(name).or_insert_with(|| Named {
            name: trace.strings.get(name).to_string(),
            count: 0,
            unfinished: 0,
            total_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        });
        group.count += 1;
        group.unfinished += u64::from(end.is_none());
        group.total_ns = group.total_ns.saturating_add(length);
        group.min_ns = group.min_ns.min(length);
        group.max_ns = group.max_ns.max(length);
    }
    let mut list: Vec<Named> = groups.into_values().collect();
    list.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    list.truncate(top);
    list
}

pub(super) fn tasks(trace: &Trace<'_>, top: usize) -> Vec<Named> {
    by_name(trace, trace.tasks.iter().map(|task| (task.name, task.start, task.end)), top)
}

pub(super) fn regions(trace: &Trace<'_>, top: usize) -> Vec<Named> {
    by_name(trace, trace.regions.iter().map(|region| (region.name, region.start, region.end)), top)
}

pub(super) fn ranges(trace: &Trace<'_>, top: usize) -> Vec<Named> {
    by_name(trace, trace.ranges.iter().map(|range| (range.name, range.start, Some(range.end))), top)
}

/// Goroutines by the function that they began with; the group that ran longest comes first.
pub(super) fn by_function(trace: &Trace<'_>, top: usize) -> Vec<Group> {
    let mut groups: HashMap<StringId, Group> = HashMap::new();
    let new = |function: StringId| Group {
        function: match trace.strings.get(function) {
            "" => "(not told)".to_string(),
            name => name.to_string(),
        },
        count: 0,
        running_ns: 0,
        runnable_ns: 0,
        syscall_ns: 0,
        waiting_ns: 0,
    };
    for goroutine in &trace.goroutines {
        groups.entry(goroutine.function).or_insert_with(|| new(goroutine.function)).count += 1;
    }
    for span in &trace.spans {
        let Some(goroutine) = trace.goroutines.get(span.g as usize) else { continue };
        let Some(group) = groups.get_mut(&goroutine.function) else { continue };
        let sum = match span.state {
            State::Running => &mut group.running_ns,
            State::Runnable => &mut group.runnable_ns,
            State::Syscall => &mut group.syscall_ns,
            State::Waiting => &mut group.waiting_ns,
        };
        *sum = sum.saturating_add(span.length());
    }
    let mut list: Vec<Group> = groups.into_values().collect();
    list.sort_by(|a, b| b.running_ns.cmp(&a.running_ns).then_with(|| a.function.cmp(&b.function)));
    list.truncate(top);
    list
}

/// The innermost functions of CPU samples.
pub(super) fn samples(trace: &Trace<'_>, top: usize) -> Vec<Sampled> {
    let mut counts: HashMap<StringId, u64> = HashMap::new();
    for sample in &trace.samples {
        if let Some(frame) = trace.stacks.get(sample.stack).next() {
            *counts.entry(frame.function).or_default() += 1;
        }
    }
    let name = |id| trace.strings.get(id).to_string();
    let mut list: Vec<Sampled> =
        counts.into_iter().map(|(id, count)| Sampled { function: name(id), count }).collect();
    list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.function.cmp(&b.function)));
    list.truncate(top);
    list
}
