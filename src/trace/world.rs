//! The world of a trace: what every goroutine, P and M does at one moment, and questions about it.

use std::collections::HashMap;
use std::panic::Location;

use crate::sched::event::reader::OUTSIDE;

/// The state of a goroutine, with Go's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    Runnable = 1,
    Running = 2,
    Syscall = 3,
    Waiting = 4,
}

/// The state of a P, with Go's numbers. If it is not idle, an M has it; if it is, an M may have had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ProcState {
    Running = 1,
    Idle = 2,
    Syscall = 3,
}

/// What is known about a goroutine. `m` is its M while it runs or is in a call.
pub(super) struct Goroutine {
    pub(super) state: State,
    pub(super) m: u32,
    pub(super) site: Option<&'static Location<'static>>,
    /// Its name, or its function.
    pub(super) title: Option<Box<str>>,
    /// The generation in which its status was written last, and its sequence number there.
    pub(super) generation: u64,
    pub(super) sequence: u64,
    pub(super) regions: Vec<(u64, Box<str>)>,
}

impl Goroutine {
    pub(super) fn new(state: State, m: u32, site: Option<&'static Location<'static>>) -> Goroutine {
        Goroutine { state, m, site, title: None, generation: 0, sequence: 0, regions: Vec::new() }
    }
}

pub(super) struct Proc {
    pub(super) state: ProcState,
    pub(super) m: u32,
    pub(super) sequence: u64,
}

impl Proc {
    pub(super) fn new(state: ProcState, m: u32) -> Proc {
        Proc { state, m, sequence: 0 }
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct Thread {
    pub(super) g: Option<u64>,
    pub(super) p: Option<u32>,
}

#[derive(Default)]
pub(super) struct World {
    pub(super) goroutines: HashMap<u64, Goroutine>,
    pub(super) procs: HashMap<u32, Proc>,
    pub(super) threads: HashMap<u32, Thread>,
}

impl World {
    pub(super) fn proc(&mut self, id: u32) -> &mut Proc {
        self.procs.entry(id).or_insert(Proc::new(ProcState::Idle, OUTSIDE))
    }

    pub(super) fn thread(&self, m: u32) -> Thread {
        self.threads.get(&m).copied().unwrap_or_default()
    }

    pub(super) fn state(&self, g: u64) -> Option<State> {
        self.goroutines.get(&g).map(|goroutine| goroutine.state)
    }

    pub(super) fn proc_state(&self, m: u32) -> Option<ProcState> {
        self.thread(m).p.and_then(|p| self.procs.get(&p)).map(|p| p.state)
    }

    /// Whether `p` was taken from `m`, or given up by it, and no M has had it since.
    pub(super) fn has_taken(&self, m: u32, p: u32) -> bool {
        self.procs.get(&p).is_some_and(|proc| proc.state == ProcState::Idle && proc.m == m)
    }

    /// Whether `g` runs on `m`, with a P.
    pub(super) fn runs_on(&self, g: u64, m: u32) -> bool {
        self.thread(m).g == Some(g)
            && self.state(g) == Some(State::Running)
            && self.proc_state(m) == Some(ProcState::Running)
    }

    /// An M with a P on which a goroutine can be made: `m`, or another one.
    pub(super) fn host(&self, m: u32) -> Option<u32> {
        let can = |m: u32| {
            let runs = |g| self.state(g) == Some(State::Running);
            self.proc_state(m) == Some(ProcState::Running) && self.thread(m).g.is_none_or(runs)
        };
        if can(m) {
            return Some(m);
        }
        self.procs.values().map(|p| p.m).find(|&m| can(m))
    }
}
