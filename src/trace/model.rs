//! The model: the [`World`] as far as the written trace says. It turns events of the logs into events of the
//! trace, and sees to it that the trace is consistent whatever the logs say.
//!
//! A reader of a trace accepts an event only in the right state: a goroutine starts only if it is runnable
//! and its M has a P and no goroutine. Events of different logs arrive in an order that is nearly, but not
//! always, the real one. So:
//!
//! - [`Model::is_possible`] says whether an event fits the state. One that does not waits for what led to it
//!   (V3 in `sched/event/`). Two things are not waited for. An M that comes back from a marked call without
//!   its P tells that another thread has taken it; that thread may be slow to write it down, and then its
//!   event says nothing new. And a goroutine made by a thread without a P is put off until an M has one.
//! - [`Model::apply`] writes an event, by the steps of `steps.rs`. If it does not fit even so, `repair.rs`
//!   first writes what must have happened in between, or leaves the event out. [`Model::repairs`] counts
//!   both.
//! - After a gap, when events were lost, [`Model::move_to`] leads to the world of the present.

use std::collections::HashMap;

use super::generation::{Generation, Stack, Type};
use super::inbox::Event;
use super::world::{Goroutine, ProcState, State, World};
use crate::sched::event::reader::OUTSIDE;
use crate::sched::event::record::Kind;

/// The key of a stack. A wait or call without a sampled stack gets that of an earlier one with the same key:
/// where its goroutine was made, what it does and why, and how deep its stack is.
pub(super) type Path = (usize, (Kind, u8), u16);

pub(super) struct Model {
    pub(super) world: World,
    pub(super) stacks: HashMap<Path, Stack>,
    pub(super) generation: Generation,
    /// The number of the generation.
    pub(super) number: u64,
    /// The time of the last event (ns).
    pub(super) now: u64,
    /// Goroutines that were made outside while no M had a P: the trace cannot have them before one has.
    pub(super) unborn: Vec<(u64, Goroutine, Option<Box<str>>)>,
    /// How many events did not fit: steps before them were made up, or they were left out.
    pub(super) repairs: u64,
    /// The first of them, in words.
    pub(super) repaired: Vec<String>,
}

impl Model {
    pub(super) fn new(now: u64) -> Model {
        Model {
            world: World::default(),
            stacks: HashMap::new(),
            generation: Generation::new(1, now),
            number: 1,
            now,
            unborn: Vec::new(),
            repairs: 0,
            repaired: Vec::new(),
        }
    }

    /// The world with which the trace begins, or goes on after a gap, at the time `now` (ns).
    pub(super) fn begin_with(&mut self, world: World, now: u64) {
        self.now = self.now.max(now);
        if self.world.procs.is_empty() {
            self.world = world;
            self.write_statuses(true);
        } else {
            self.move_to(world);
        }
    }

    /// Begins a new generation, and returns the last one.
    pub(super) fn next_generation(&mut self) -> Generation {
        self.number += 1;
        let last = std::mem::replace(&mut self.generation, Generation::new(self.number, self.now));
        self.write_statuses(false);
        last
    }

    /// Writes the states with which a generation begins: of Ms, of Ps, and of goroutines that have an M.
    /// Those of other goroutines are written before their first event; only in the first generation (`all`)
    /// here, because later ones must not introduce goroutines.
    pub(super) fn write_statuses(&mut self, all: bool) {
        let mut procs: Vec<(u32, ProcState, u32)> =
            self.world.procs.iter().map(|(&id, p)| (id, p.state, p.m)).collect();
        procs.sort_unstable_by_key(|p| p.0);
        for (id, state, m) in procs {
            let thread = if state == ProcState::Idle { OUTSIDE } else { m };
            self.event(thread, Type::ProcStatus, &[id.into(), state as u64]);
            self.world.proc(id).sequence = 0;
        }
        let mut running: Vec<(u32, u64)> =
            self.world.threads.iter().filter_map(|(&m, thread)| Some((m, thread.g?))).collect();
        running.sort_unstable();
        for (m, g) in running {
            self.introduce(m, g);
        }
        if all {
            let mut rest: Vec<u64> = self.world.goroutines.keys().copied().collect();
            rest.sort_unstable();
            for g in rest {
                self.introduce(OUTSIDE, g);
            }
        }
    }

    /// Whether an event of log `m` fits the state. An event that will be left out fits always.
    pub(super) fn is_possible(&self, m: u32, event: &Event) -> bool {
        let g = event.subject;
        match event.kind {
            Kind::Create => {
                m == OUTSIDE || self.world.goroutines.contains_key(&g) || self.world.host(m).is_some()
            }
            Kind::Start => {
                let thread = self.world.thread(m);
                self.world.state(g) == Some(State::Runnable)
                    && thread.g.is_none()
                    && self.world.proc_state(m) == Some(ProcState::Running)
            }
            Kind::Wait | Kind::Yield | Kind::Preempt | Kind::End | Kind::CallBegin => {
                self.world.runs_on(g, m)
            }
            Kind::Unblock => self.world.state(g) == Some(State::Waiting),
            Kind::CallEnd => {
                self.world.thread(m).g == Some(g) && self.world.proc_state(m) == Some(ProcState::Syscall)
            }
            // If its P was taken and that is written down later, this says so.
            Kind::CallEndWithoutP => {
                self.world.thread(m).g == Some(g) && self.world.state(g) == Some(State::Syscall)
            }
            Kind::ProcStart => {
                let idle = self.world.procs.get(&(g as u32)).is_none_or(|p| p.state == ProcState::Idle);
                idle && self.world.thread(m).p.is_none()
            }
            Kind::ProcStop => self.world.thread(m).p == Some(g as u32) && self.world.thread(m).g.is_none(),
            Kind::Steal => {
                let (m, p) = event.m_and_p();
                self.world.has_taken(m, p)
                    || self.world.thread(m).p == Some(p)
                        && self.world.proc_state(m) == Some(ProcState::Syscall)
            }
            Kind::Detach => {
                let (m, p) = event.m_and_p();
                self.world.thread(m).p == Some(p)
                    && self.world.thread(m).g.is_some_and(|g| self.world.runs_on(g, m))
            }
            // Notes of the program.
            _ => self.world.thread(m).g.is_some_and(|g| self.world.runs_on(g, m)),
        }
    }

    /// Writes an event of log `m`; see the head of this file.
    pub(super) fn apply(&mut self, m: u32, event: &Event) {
        self.now = self.now.max(event.time);
        if !self.is_possible(m, event) {
            self.count_repair(m, event);
            if !self.make_possible(m, event) {
                return;
            }
        }
        let g = event.subject;
        let details = event.details.as_deref();
        match event.kind {
            Kind::Create => self.create(m, g, details),
            Kind::Start => self.start(m, g),
            Kind::Wait => self.wait(m, event, details),
            Kind::Yield => self.stop(m, g, "yield"),
            Kind::Preempt => self.stop(m, g, "preempted"),
            Kind::End => self.end(m, g),
            Kind::Unblock => {
                let stack = self.world.thread(m).g.and_then(|by| self.stack_of(by, event, details));
                self.unblock(m, g, stack);
            }
            Kind::CallBegin => {
                let stack = self.stack_of(g, event, details);
                self.begin_call(m, stack);
            }
            Kind::CallEnd => self.end_call(m),
            Kind::CallEndWithoutP => {
                if let Some(p) = self.world.thread(m).p {
                    self.steal(OUTSIDE, (m, p));
                }
                self.end_call_without_p(m);
            }
            Kind::ProcStart => self.start_proc(m, g as u32),
            Kind::ProcStop => self.stop_proc(m),
            Kind::Steal => {
                let (from, p) = event.m_and_p();
                if !self.world.has_taken(from, p) {
                    self.steal(m, (from, p));
                }
            }
            Kind::Detach => {
                self.begin_call(event.m_and_p().0, None);
                self.steal(m, event.m_and_p());
            }
            _ => self.note(m, event, details),
        }
    }
}
