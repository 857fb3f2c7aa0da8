//! What programs say about themselves (tasks, regions, logs, labels), and what the collector did.

use std::collections::HashMap;

use super::{Log, NONE, Range, Region, Task, Trace};
use crate::error::Error;
use crate::generation::Generation;
use crate::order::Step;
use crate::spec;
use crate::tables::{StringId, Strings};

/// What is open.
#[derive(Debug, Default)]
pub(super) struct Annotations {
    /// Indices of tasks, by their numbers.
    tasks: HashMap<u64, usize>,
    /// Indices of regions of a goroutine, the innermost last.
    regions: HashMap<u32, Vec<usize>>,
    /// Since when each goroutine has stopped the world, and why.
    stops: HashMap<u32, (u64, StringId)>,
    collecting_since: Option<u64>,
    collections: Vec<(u64, u64)>,
}

impl Annotations {
    pub(super) fn step(
        &mut self,
        trace: &mut Trace<'_>,
        generation: &Generation,
        step: &Step,
        time: u64,
    ) -> Result<(), Error> {
        let (at, args) = (step.event.offset, step.event.args);
        let g = step.context.g.unwrap_or(NONE);
        match step.event.kind {
            spec::GO_LABEL => {
                let label = generation.string(args[0], at)?;
                if let Some(goroutine) = trace.goroutines.get_mut(g as usize) {
                    goroutine.label = label;
                }
            }
            spec::USER_TASK_BEGIN => {
                let [id, parent, name, stack] = args;
                generation.stack(stack, at)?;
                let name = generation.string(name, at)?;
                if self.tasks.insert(id, trace.tasks.len()).is_some() {
                    return Err(Error::broken(at, format!("task {id} begins, but has not ended yet")));
                }
                trace.tasks.push(Task { id, parent, name, g, start: time, end: None });
            }
            spec::USER_TASK_END => {
                generation.stack(args[1], at)?;
                // A task that began before the trace did is not known.
                if let Some(index) = self.tasks.remove(&args[0]) {
                    trace.tasks[index].end = Some(time);
                }
            }
            spec::USER_REGION_BEGIN => {
                generation.stack(args[2], at)?;
                let (task, name) = (args[0], generation.string(args[1], at)?);
                self.regions.entry(g).or_default().push(trace.regions.len());
                trace.regions.push(Region { task, name, g, start: time, end: None });
            }
            spec::USER_REGION_END => {
                generation.stack(args[2], at)?;
                let (task, name) = (args[0], generation.string(args[1], at)?);
                // A region that began before the trace did is not known.
                if let Some(index) = self.regions.get_mut(&g).and_then(Vec::pop) {
                    let region = &mut trace.regions[index];
                    if (region.task, region.name) != (task, name) {
                        return Err(Error::broken(at, "a region ends that is not the innermost one"));
                    }
                    region.end = Some(time);
                }
            }
            spec::USER_LOG => {
                let [task, key, value, stack] = args;
                generation.stack(stack, at)?;
                let (key, value) = (generation.string(key, at)?, generation.string(value, at)?);
                trace.logs.push(Log { time, g, task, key, value });
            }
            spec::STW_BEGIN => {
                generation.stack(args[1], at)?;
                self.stops.insert(g, (time, generation.string(args[0], at)?));
            }
            spec::STW_END => {
                if let Some((start, name)) = self.stops.remove(&g) {
                    trace.ranges.push(Range { name, stopped: true, start, end: time });
                }
            }
            spec::GC_BEGIN | spec::GC_ACTIVE => {
                self.collecting_since.get_or_insert(time);
            }
            spec::GC_END => {
                if let Some(start) = self.collecting_since.take() {
                    self.collections.push((start, time));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The regions that it has not ended end with it.
    pub(super) fn goroutine_ends(&mut self, trace: &mut Trace<'_>, g: u32, time: u64) {
        for index in self.regions.remove(&g).unwrap_or_default() {
            trace.regions[index].end = Some(time);
        }
    }

    pub(super) fn finish(&mut self, trace: &mut Trace<'_>, strings: &mut Strings<'_>, end: u64) {
        let open = self.collecting_since.take().map(|start| (start, end));
        let name = strings.add(b"GC");
        for (start, end) in self.collections.drain(..).chain(open) {
            trace.ranges.push(Range { name, stopped: false, start, end });
        }
        for (_, (start, name)) in self.stops.drain() {
            trace.ranges.push(Range { name, stopped: true, start, end });
        }
        trace.ranges.sort_by_key(|range| (range.start, range.end, range.name));
    }
}
