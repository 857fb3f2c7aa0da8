//! Samples of a CPU profile that is being made at the same time (`profile/cpu/`): they become part of the
//! trace.
//!
//! The thread of the profile adds them here when it has unwound their stacks, at most some hundredths of a
//! second later. The thread of the trace takes them when it writes a generation. They need not fit the model:
//! the format allows them at any time.

use std::mem;
use std::sync::{Mutex, PoisonError};

use super::generation::{Generation, Stack, Type, UNIT, push_number};
use super::session;

/// A sample. Go's tools show only those that have an M.
pub(crate) struct CpuSample {
    /// When it was taken (ns).
    pub(crate) time: u64,
    pub(crate) m: u32,
    pub(crate) p: Option<u32>,
    /// The goroutine, or 0.
    pub(crate) goroutine: u64,
    pub(crate) frames: Box<[usize]>,
}

/// Samples that are in no generation yet.
static WAITING: Mutex<Vec<CpuSample>> = Mutex::new(Vec::new());
/// If this many wait, because nobody writes the trace any more, others are dropped.
const MOST: usize = 1 << 16;
/// The format's word for "no P".
const NO_PROC: u64 = u64::MAX;

/// Whether a trace is being made.
pub(crate) fn are_wanted() -> bool {
    session::is_running()
}

/// Adds samples for the generation that is being written.
pub(crate) fn add(samples: impl Iterator<Item = CpuSample>) {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let room = MOST.saturating_sub(waiting.len());
    waiting.extend(samples.take(room));
}

/// Takes the samples that were added.
pub(super) fn take() -> Vec<CpuSample> {
    mem::take(&mut *WAITING.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Generation {
    /// Writes samples.
    pub(super) fn add_cpu_samples(&mut self, samples: Vec<CpuSample>) {
        let mut entries = Vec::with_capacity(samples.len());
        for sample in samples {
            let stack = self.stack(&Stack::Addresses(sample.frames));
            let p = sample.p.map_or(NO_PROC, u64::from);
            let mut entry = vec![Type::CpuSample as u8];
            for number in [sample.time / UNIT, sample.m.into(), p, sample.goroutine, stack] {
                push_number(&mut entry, number);
            }
            entries.push(entry);
        }
        self.events += entries.len() as u64;
        self.push_table(Type::CpuSamples, &entries);
    }
}
