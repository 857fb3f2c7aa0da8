//! Builds the states of goroutines and Ps from the ordered events.
//!
//! Each goroutine that is alive has an open span. An event that changes its state closes the span and opens
//! the next one, so the spans of a goroutine follow each other without gaps. Times never go back: an event
//! whose clock is behind gets the time of the event before it.

use super::annotations::Annotations;
use super::{Cause, GenerationInfo, Goroutine, NONE, Proc, Sample, Span, State, Trace};
use crate::error::Error;
use crate::generation::{Generation, RawSample};
use crate::order::{Sink, State as OrderState, Step};
use crate::spec;
use crate::tables::{StackId, Stacks, StringId, Strings};

pub(super) struct Builder<'a> {
    pub(super) trace: Trace<'a>,
    /// The open span of each goroutine. One that has ended keeps its last one, which is not used.
    open: Vec<Span>,
    annotations: Annotations,
    /// The outermost function of each stack of the trace so far; 0 if it has none.
    outermost: Vec<StringId>,
    /// Nanoseconds, in the trace's clock, at which the trace begins.
    base: Option<u64>,
    now: u64,
}

impl<'a> Builder<'a> {
    pub(super) fn new() -> Builder<'a> {
        let trace = Trace {
            strings: Strings::new(),
            stacks: Stacks::new(),
            generations: Vec::new(),
            goroutines: Vec::new(),
            procs: Vec::new(),
            threads: 0,
            spans: Vec::new(),
            unfinished: 0,
            tasks: Vec::new(),
            regions: Vec::new(),
            logs: Vec::new(),
            ranges: Vec::new(),
            samples: Vec::new(),
            max_procs: Vec::new(),
            heap: Vec::new(),
            end: 0,
            wall: 0,
            damage: None,
        };
        let annotations = Annotations::default();
        Builder { trace, open: Vec::new(), annotations, outermost: Vec::new(), base: None, now: 0 }
    }

    /// A generation begins.
    pub(super) fn begin(&mut self, generation: &Generation, bytes: u64, stacks: &Stacks) {
        let start = generation.clock.nanoseconds(generation.start);
        if self.base.is_none() {
            self.base = Some(start);
            self.trace.wall = generation.clock.wall(generation.start).unwrap_or(0);
        }
        for id in self.outermost.len()..stacks.count() {
            let outermost = stacks.get(id as StackId).next_back();
            self.outermost.push(outermost.map_or(0, |frame| frame.function));
        }
        let start = start.saturating_sub(self.base.unwrap_or(0)).max(self.now);
        let number = generation.number;
        self.trace.generations.push(GenerationInfo { number, events: 0, bytes, start });
    }

    /// Closes everything that is still open.
    pub(super) fn finish(
        mut self,
        state: &OrderState,
        mut strings: Strings<'a>,
        stacks: Stacks,
        damage: Option<Error>,
    ) -> Trace<'a> {
        let now = self.now;
        self.trace.unfinished = self.trace.spans.len();
        for (span, goroutine) in self.open.iter().zip(&self.trace.goroutines) {
            if goroutine.ended.is_none() {
                self.trace.spans.push(Span { end: now, ..*span });
            }
        }
        for proc in &mut self.trace.procs {
            release(proc, now);
        }
        self.annotations.finish(&mut self.trace, &mut strings, now);
        Trace { strings, stacks, damage, end: now, threads: state.threads(), ..self.trace }
    }

    fn time(&mut self, generation: &Generation, time: u64) -> u64 {
        let time = generation.clock.nanoseconds(time).saturating_sub(self.base.unwrap_or(0));
        self.now = self.now.max(time);
        self.now
    }

    /// The goroutine comes into a state.
    fn change(&mut self, g: u32, next: Span) {
        let span = &mut self.open[g as usize];
        self.trace.spans.push(Span { end: next.start, ..*span });
        *span = next;
        // The stack of whoever unblocked it is not its own.
        if !matches!(next.cause, Cause::Unblocked | Cause::Created) {
            self.learn_function(g, next.stack);
        }
    }

    fn learn_function(&mut self, g: u32, stack: StackId) {
        let goroutine = &mut self.trace.goroutines[g as usize];
        if goroutine.function == 0 {
            goroutine.function = self.outermost.get(stack as usize).copied().unwrap_or(0);
        }
    }

    fn add_goroutine(&mut self, id: u64, span: Span) {
        let goroutine = Goroutine {
            id,
            label: 0,
            function: 0,
            creator: NONE,
            create_stack: 0,
            first: span.start,
            created: false,
            ended: None,
        };
        self.trace.goroutines.push(goroutine);
        self.open.push(span);
    }

    fn end_goroutine(&mut self, g: u32, time: u64) {
        let span = self.open[g as usize];
        self.trace.spans.push(Span { end: time, ..span });
        self.trace.goroutines[g as usize].ended = Some(time);
        self.annotations.goroutine_ends(&mut self.trace, g, time);
    }

    /// The P is no longer an M's; a goroutine that is in a call with it goes on without it.
    fn proc_goes(&mut self, p: u32, holder: Option<u32>, time: u64) {
        release(&mut self.trace.procs[p as usize], time);
        if let Some(g) = holder {
            let span = self.open[g as usize];
            if span.state == State::Syscall && span.p == p {
                let cause = Cause::LostProc;
                self.change(g, Span { start: time, p: NONE, cause, ..span });
            }
        }
    }

    fn status(&mut self, state: &OrderState, step: &Step, time: u64, stack: StackId) {
        let Some(g) = step.g else { return };
        if (g as usize) < self.open.len() {
            // A later generation says what is known, but may have a stack that was not.
            let span = &mut self.open[g as usize];
            if span.stack == 0 && span.state == State::Waiting {
                span.stack = stack;
                self.learn_function(g, stack);
            }
            return;
        }
        let (what, m) = match step.event.args[2] {
            1 => (State::Runnable, NONE),
            2 => (State::Running, step.other.unwrap_or(NONE)),
            3 => (State::Syscall, step.other.unwrap_or(NONE)),
            _ => (State::Waiting, NONE),
        };
        let own_m = step.other.is_some() && step.other == step.context.m;
        let p = if own_m { step.context.p.unwrap_or(NONE) } else { NONE };
        let span = Span { m, p, stack, state: what, cause: Cause::Before, ..blank(g, time) };
        self.add_goroutine(state.goroutine_id(g), span);
        self.learn_function(g, stack);
    }

    fn create(&mut self, state: &OrderState, step: &Step, time: u64, stacks: (StackId, StackId)) {
        let Some(g) = step.g else { return };
        let what = match step.event.kind {
            spec::GO_CREATE => State::Runnable,
            spec::GO_CREATE_BLOCKED => State::Waiting,
            _ => State::Syscall,
        };
        let by = step.context.g.unwrap_or(NONE);
        let (start, stack) = stacks;
        let mut span = Span { by, stack, state: what, cause: Cause::Created, ..blank(g, time) };
        if what == State::Syscall {
            (span.m, span.p) = (step.context.m.unwrap_or(NONE), step.context.p.unwrap_or(NONE));
        }
        self.add_goroutine(state.goroutine_id(g), span);
        let function = self.outermost.get(start as usize).copied().unwrap_or(0);
        let goroutine = &mut self.trace.goroutines[g as usize];
        *goroutine = Goroutine { function, creator: by, create_stack: stack, created: true, ..*goroutine };
    }
}

/// A span of which only the goroutine and the beginning are known.
fn blank(g: u32, start: u64) -> Span {
    Span {
        start,
        end: start,
        g,
        p: NONE,
        m: NONE,
        by: NONE,
        reason: 0,
        stack: 0,
        state: State::Waiting,
        cause: Cause::Itself,
    }
}

fn release(proc: &mut Proc, time: u64) {
    if let Some(since) = proc.owned_since.take() {
        proc.owned += time - since;
    }
}

impl Sink for Builder<'_> {
    fn step(&mut self, state: &OrderState, generation: &Generation, step: &Step) -> Result<(), Error> {
        let event = &step.event;
        let (at, args) = (event.offset, event.args);
        let time = self.time(generation, event.time);
        if let Some(info) = self.trace.generations.last_mut() {
            info.events += 1;
        }
        let (m, p) = (step.context.m.unwrap_or(NONE), step.context.p.unwrap_or(NONE));
        let g = step.g.unwrap_or(NONE);
        match event.kind {
            spec::PROC_STATUS | spec::PROC_START => {
                let Some(p) = step.p else { return Ok(()) };
                if p as usize == self.trace.procs.len() {
                    self.trace.procs.push(Proc { id: state.proc_id(p), ..Proc::default() });
                }
                let proc = &mut self.trace.procs[p as usize];
                proc.starts += u64::from(event.kind == spec::PROC_START);
                if event.kind == spec::PROC_START || matches!(args[1], 1 | 3) {
                    proc.owned_since.get_or_insert(time);
                }
            }
            spec::PROC_STOP => self.proc_goes(p, step.context.g, time),
            spec::PROC_STEAL => {
                let Some(p) = step.p else { return Ok(()) };
                self.trace.procs[p as usize].steals += 1;
                self.proc_goes(p, step.other, time);
            }
            spec::GO_STATUS => self.status(state, step, time, 0),
            spec::GO_STATUS_STACK => self.status(state, step, time, generation.stack(args[3], at)?),
            spec::GO_CREATE | spec::GO_CREATE_BLOCKED => {
                let stacks = (generation.stack(args[1], at)?, generation.stack(args[2], at)?);
                self.create(state, step, time, stacks);
            }
            spec::GO_CREATE_SYSCALL => self.create(state, step, time, (0, 0)),
            spec::GO_START | spec::GO_SYSCALL_END => {
                self.change(g, Span { m, p, state: State::Running, ..blank(g, time) });
            }
            spec::GO_STOP | spec::GO_BLOCK => {
                let (reason, stack) = (generation.string(args[0], at)?, generation.stack(args[1], at)?);
                let (state, cause) = match event.kind {
                    spec::GO_STOP => (State::Runnable, Cause::Stopped),
                    _ => (State::Waiting, Cause::Itself),
                };
                self.change(g, Span { reason, stack, state, cause, ..blank(g, time) });
            }
            spec::GO_UNBLOCK => {
                let (by, stack) = (step.context.g.unwrap_or(NONE), generation.stack(args[2], at)?);
                let state = State::Runnable;
                self.change(g, Span { by, stack, state, cause: Cause::Unblocked, ..blank(g, time) });
            }
            spec::GO_SWITCH | spec::GO_SWITCH_DESTROY => {
                if let Some(current) = step.context.g {
                    if event.kind == spec::GO_SWITCH {
                        self.change(current, blank(current, time));
                    } else {
                        self.end_goroutine(current, time);
                    }
                }
                self.change(g, Span { m, p, state: State::Running, ..blank(g, time) });
            }
            spec::GO_SYSCALL_BEGIN => {
                let stack = generation.stack(args[1], at)?;
                self.change(g, Span { m, p, stack, state: State::Syscall, ..blank(g, time) });
            }
            spec::GO_SYSCALL_END_BLOCKED => {
                let cause = Cause::Returned;
                self.change(g, Span { state: State::Runnable, cause, ..blank(g, time) });
            }
            spec::GO_DESTROY => self.end_goroutine(g, time),
            spec::GO_DESTROY_SYSCALL => {
                if let Some(p) = step.context.p {
                    release(&mut self.trace.procs[p as usize], time);
                }
                self.end_goroutine(g, time);
            }
            spec::PROCS_CHANGE => {
                generation.stack(args[1], at)?;
                self.trace.max_procs.push((time, args[0]));
            }
            spec::HEAP_ALLOC => self.trace.heap.push((time, args[0])),
            _ => self.annotations.step(&mut self.trace, generation, step, time)?,
        }
        Ok(())
    }

    fn sample(&mut self, state: &OrderState, generation: &Generation, sample: &RawSample) {
        let time = self.time(generation, sample.time);
        self.trace.samples.push(Sample {
            time,
            g: state.goroutine(sample.g).unwrap_or(NONE),
            p: state.proc(sample.p).unwrap_or(NONE),
            m: state.thread(sample.m).unwrap_or(NONE),
            stack: sample.stack,
        });
    }
}
