//! `gort::runtime::processors`: what each processor does now.

use crate::sched::boot;
use crate::sched::machine::SCHED;
use crate::sched::types::p::P;

/// One of the GOMAXPROCS processors, as [`processors`] found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Processor {
    /// What it did when it was looked at.
    pub state: ProcessorState,
    /// Goroutines in its own queue.
    pub queue: usize,
    /// How many times it took goroutines from another processor's queue so far.
    pub steals: u64,
    /// How many goroutines it took that way.
    pub stolen: u64,
}

/// What a [`Processor`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessorState {
    /// It has nothing to do.
    Idle,
    /// Its thread chooses, or looks for, a goroutine.
    Searching,
    /// It runs a goroutine.
    Running,
    /// Its goroutine is in a [`blocking`](crate::blocking) call. Another thread takes the processor if there
    /// is work.
    Blocking,
}

/// What each processor does now. Unlike [`stats`](super::stats) this does not look at the goroutines, so it
/// may be called very often: a sampler can find out how busy the processors are.
///
/// ```
/// use gort::runtime::{ProcessorState, processors};
/// let busy = gort::run(|| processors().iter().filter(|p| p.state == ProcessorState::Running).count());
/// assert!(busy <= gort::runtime::max_procs());
/// ```
pub fn processors() -> Vec<Processor> {
    boot::ensure();
    SCHED.ps_in_use().map(processor).collect()
}

/// What that processor does now.
pub(crate) fn processor(p: &'static P) -> Processor {
    use std::sync::atomic::Ordering::Relaxed;
    // `P::m` may be the last owner: it counts only if it still has this P.
    let owner = p.m().filter(|m| m.p().is_some_and(|its| std::ptr::eq(its, p)));
    let state = if SCHED.is_idle(p.id as usize) {
        ProcessorState::Idle
    } else if p.in_syscall.load(Relaxed) {
        ProcessorState::Blocking
    } else if owner.is_some_and(|m| m.current().is_some()) {
        ProcessorState::Running
    } else {
        ProcessorState::Searching
    };
    Processor { state, queue: p.runq.len(), steals: p.stats.steals.get(), stolen: p.stats.stolen.get() }
}
