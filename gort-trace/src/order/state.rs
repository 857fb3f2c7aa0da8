//! The state of all goroutines, Ps and Ms while the events of a trace happen.
//!
//! Goroutines, Ps and Ms have indices, given in the order in which they appear. A goroutine's index is never
//! used again, so lists of other modules can be indexed with it.

use std::collections::HashMap;

use super::{Outcome, Step};
use crate::error::Error;
use crate::event::Event;
use crate::spec;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum GoStatus {
    Runnable,
    Running,
    Syscall,
    Waiting,
}

impl GoStatus {
    pub(super) fn of(number: u64) -> Option<GoStatus> {
        Some(match number {
            1 => GoStatus::Runnable,
            2 => GoStatus::Running,
            3 => GoStatus::Syscall,
            4 => GoStatus::Waiting,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum ProcStatus {
    Running,
    Idle,
    Syscall,
    /// In a call, but which M is in it has been lost.
    Abandoned,
}

impl ProcStatus {
    pub(super) fn of(number: u64) -> Option<ProcStatus> {
        Some(match number {
            1 => ProcStatus::Running,
            2 => ProcStatus::Idle,
            3 => ProcStatus::Syscall,
            4 => ProcStatus::Abandoned,
            _ => return None,
        })
    }
}

#[derive(Debug)]
pub(super) struct G {
    pub(super) id: u64,
    pub(super) status: GoStatus,
    /// The sequence number, and the generation to which it belongs.
    pub(super) seq: (u64, u64),
}

#[derive(Debug)]
pub(super) struct P {
    pub(super) id: u64,
    pub(super) status: ProcStatus,
    pub(super) seq: (u64, u64),
}

/// What an M has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct M {
    pub(super) g: Option<u32>,
    pub(super) p: Option<u32>,
}

/// Where an event happens: indices of the M, its P and its goroutine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context {
    pub(crate) m: Option<u32>,
    pub(crate) p: Option<u32>,
    pub(crate) g: Option<u32>,
}

/// What has to happen before an event can.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Wait {
    /// The goroutine with this id comes into the status, with this sequence number.
    Goroutine { id: u64, seq: u64, status: GoStatus },
    /// The P with this id comes into the status, with this sequence number.
    Proc { id: u64, seq: u64, status: ProcStatus },
    /// Another M takes the P of the M with this index.
    LosesProc { m: u32 },
    /// The collector's sequence number becomes this.
    Collector { seq: u64 },
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(super) gs: Vec<G>,
    pub(super) g_ids: HashMap<u64, u32>,
    pub(super) ps: Vec<P>,
    pub(super) p_ids: HashMap<u64, u32>,
    pub(super) ms: Vec<M>,
    pub(super) m_ids: HashMap<u64, u32>,
    /// Whether the collector runs, if that is known, and its sequence number.
    pub(super) collecting: Option<bool>,
    pub(super) collector_seq: u64,
    pub(super) generation: u64,
    pub(super) is_first: bool,
    /// What the last event has made possible.
    pub(super) changes: Vec<Wait>,
}

impl State {
    pub(super) fn begin(&mut self, generation: u64) {
        self.is_first = self.generation == 0;
        self.generation = generation;
        self.changes.clear();
    }

    /// Lets the event happen, if it is due.
    pub(super) fn advance(&mut self, event: &Event, m_id: u64) -> Result<Outcome, Error> {
        let m = (m_id != spec::NO_M).then(|| self.m_index(m_id));
        let M { g, p } = m.map_or(M::default(), |m| self.ms[m as usize]);
        let step = Step { event: *event, context: Context { m, p, g }, g: None, p: None, other: None };
        self.apply(step)
    }

    /// The index of the goroutine that is alive and has this id.
    pub(crate) fn goroutine(&self, id: u64) -> Option<u32> {
        self.g_ids.get(&id).copied()
    }

    pub(crate) fn goroutine_id(&self, index: u32) -> u64 {
        self.gs[index as usize].id
    }

    pub(crate) fn proc(&self, id: u64) -> Option<u32> {
        self.p_ids.get(&id).copied()
    }

    pub(crate) fn proc_id(&self, index: u32) -> u64 {
        self.ps[index as usize].id
    }

    pub(crate) fn thread(&self, id: u64) -> Option<u32> {
        self.m_ids.get(&id).copied()
    }

    pub(crate) fn threads(&self) -> usize {
        self.ms.len()
    }

    pub(super) fn m_index(&mut self, id: u64) -> u32 {
        let next = self.ms.len() as u32;
        *self.m_ids.entry(id).or_insert_with(|| {
            self.ms.push(M::default());
            next
        })
    }

    pub(super) fn new_goroutine(&mut self, id: u64, status: GoStatus) -> u32 {
        let index = self.gs.len() as u32;
        self.gs.push(G { id, status, seq: (self.generation, 0) });
        self.g_ids.insert(id, index);
        self.goroutine_changed(index);
        index
    }

    pub(super) fn new_proc(&mut self, id: u64, status: ProcStatus) -> u32 {
        let index = self.ps.len() as u32;
        self.ps.push(P { id, status, seq: (self.generation, 0) });
        self.p_ids.insert(id, index);
        self.proc_changed(index);
        index
    }

    /// Remembers that events which wait for this state of the goroutine may happen now.
    pub(super) fn goroutine_changed(&mut self, index: u32) {
        let G { id, status, seq } = self.gs[index as usize];
        if seq.0 == self.generation && matches!(status, GoStatus::Runnable | GoStatus::Waiting) {
            self.changes.push(Wait::Goroutine { id, seq: seq.1, status });
        }
    }

    /// Remembers that events which wait for this state of the P may happen now.
    pub(super) fn proc_changed(&mut self, index: u32) {
        let P { id, status, seq } = self.ps[index as usize];
        let status = if status == ProcStatus::Abandoned { ProcStatus::Syscall } else { status };
        if seq.0 == self.generation && status != ProcStatus::Running {
            self.changes.push(Wait::Proc { id, seq: seq.1, status });
        }
    }

    /// Why what an event waits for does not come.
    pub(super) fn explain(&self, wait: &Wait) -> String {
        match *wait {
            Wait::Goroutine { id, seq, status } => {
                let wanted = format!("goroutine {id} would have to be {status:?} with sequence number {seq}");
                match self.g_ids.get(&id).map(|&index| &self.gs[index as usize]) {
                    None => format!("{wanted}, but does not exist"),
                    Some(g) if g.seq.0 != self.generation => {
                        format!("{wanted}, but this generation has no status of it")
                    }
                    Some(g) => format!("{wanted}, but is {:?} with {}", g.status, g.seq.1),
                }
            }
            Wait::Proc { id, seq, status } => {
                let wanted = format!("P {id} would have to be {status:?} with sequence number {seq}");
                match self.p_ids.get(&id).map(|&index| &self.ps[index as usize]) {
                    None => format!("{wanted}, but does not exist"),
                    Some(p) if p.seq.0 != self.generation => {
                        format!("{wanted}, but this generation has no status of it")
                    }
                    Some(p) => format!("{wanted}, but is {:?} with {}", p.status, p.seq.1),
                }
            }
            Wait::LosesProc { .. } => String::from("its M has a P that no other M takes"),
            Wait::Collector { seq } => {
                format!("the collector would have to be at {seq}, but is at {}", self.collector_seq)
            }
        }
    }
}
