//! The memory of event logs: chunks of records, which pass from the pool to a log and, when they are full, to
//! the reader, which gives them back (V4). Its size is fixed, so tracing never needs more memory than this.

use std::sync::OnceLock;
use std::{io, ptr};

use super::log::Place;
use super::record::Record;
use crate::base::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sys::mem;

pub(crate) use crate::base::atomic::LOG_CHUNK as CHUNK;

/// The chunks, and for each one to which log it belongs: the number of the log plus 1 (32 bits), and how many
/// chunks the log had used before it (32 bits). 0: it is free.
pub(super) struct Memory {
    places: &'static [Place],
    owners: &'static [AtomicU64],
}

pub(crate) struct Pool {
    /// How many chunks it has.
    pub(super) chunks: usize,
    pub(super) memory: OnceLock<Memory>,
    /// Few chunks below this one are free: logs look for one from here on.
    pub(super) first_free: AtomicUsize,
}

impl Pool {
    /// Gets the memory, unless the pool has it.
    pub(super) fn fill(&self) -> io::Result<()> {
        if self.memory.get().is_none() {
            // SAFETY: all-zero bytes are atomics that are 0.
            let memory = unsafe {
                Memory {
                    places: mem::zeroed_forever(self.chunks * CHUNK)?,
                    owners: mem::zeroed_forever(self.chunks)?,
                }
            };
            let _another_thread_was_faster = self.memory.set(memory);
        }
        Ok(())
    }

    /// Takes a chunk for a log, which has used `used` chunks before. Allocates nothing and takes no lock.
    pub(super) fn take(&self, log: u32, used: u32) -> Option<*const Place> {
        let memory = self.memory.get()?;
        let owner = (u64::from(log) + 1) << 32 | u64::from(used);
        let from = self.first_free.load(Ordering::Relaxed);
        for index in from..self.chunks {
            // Acquire pairs with the release in `give_back`: the chunk is empty.
            let free = &memory.owners[index];
            if free.load(Ordering::Relaxed) == 0
                && free.compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                // If a chunk before it was given back meanwhile, this forgets that one until `look_at_all`.
                let _changed =
                    self.first_free.compare_exchange(from, index + 1, Ordering::Relaxed, Ordering::Relaxed);
                return Some(ptr::from_ref(&memory.places[index * CHUNK]));
            }
        }
        None
    }

    /// For the reader: lets logs look at all chunks again.
    pub(super) fn look_at_all(&self) {
        self.first_free.store(0, Ordering::Relaxed);
    }

    /// For the reader: all chunks that belong to a log, as (log, chunks that it used before, index).
    pub(super) fn in_use(&self) -> impl Iterator<Item = (u32, u32, usize)> {
        let owners = self.memory.get().map_or(&[][..], |memory| memory.owners);
        owners.iter().enumerate().filter_map(|(index, owner)| {
            let owner = owner.load(Ordering::Acquire);
            (owner != 0).then(|| ((owner >> 32) as u32 - 1, owner as u32, index))
        })
    }

    /// For the reader: the record at a place of a chunk, if it was written.
    pub(super) fn read(&self, chunk: usize, place: usize) -> Option<Record> {
        self.memory.get()?.places[chunk * CHUNK + place].read()
    }

    /// For the reader: gives a chunk back that it has read to the end.
    pub(super) fn give_back(&self, chunk: usize) {
        let Some(memory) = self.memory.get() else { return };
        for place in &memory.places[chunk * CHUNK..(chunk + 1) * CHUNK] {
            place.first.store(0, Ordering::Relaxed);
        }
        // Release pairs with the Acquire in `take`.
        memory.owners[chunk].store(0, Ordering::Release);
        self.first_free.fetch_min(chunk, Ordering::Relaxed);
    }

    /// How many chunks are in use, of how many.
    pub(super) fn used(&self) -> (usize, usize) {
        (self.in_use().count(), self.chunks)
    }
}
