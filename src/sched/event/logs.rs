//! What the logs of all threads share: the memory, and how much of it was used and missed.

use std::io;

use super::outside::Outside;
use super::pool::Pool;
use super::record::Record;
use crate::base::atomic::{AtomicU32, AtomicU64, Ordering};

/// After this many chunks, 1 MiB, the flight recorder reads the logs: often enough that a small part of the
/// pool is in use, and so rarely that waking its thread costs nothing.
const MANY_CHUNKS: u32 = 128;

pub(crate) struct Logs {
    pub(super) pool: Pool,
    pub(super) outside: Outside,
    /// How many times a record, or some that belong together, found no memory.
    pub(super) lost: AtomicU64,
    /// How many chunks logs have begun, or wanted to begin, since the last read.
    pub(super) fresh: AtomicU32,
}

impl Logs {
    /// Gets the memory, unless it is there.
    pub(super) fn fill(&self) -> io::Result<()> {
        self.pool.fill()?;
        self.outside.fill()
    }

    /// Appends `count` records to the log of threads that are not Ms.
    pub(super) fn append_outside(&self, count: usize, records: impl Iterator<Item = Record>) {
        if !self.outside.append(count, records) {
            self.count_loss();
        }
    }

    /// Records found no memory. Their writer counts that before it writes its next record, and before other
    /// threads see what the records are about (V3): so a reader that finds a record that comes after a loss
    /// finds the loss, too.
    pub(super) fn count_loss(&self) {
        // Release pairs with the Acquire in `Reader::read`: the writer's earlier records can be read.
        self.lost.fetch_add(1, Ordering::Release);
    }

    /// A log needs another chunk. Returns whether there are many new ones. The caller may be a signal
    /// handler.
    pub(super) fn count_chunk(&self) -> bool {
        self.fresh.fetch_add(1, Ordering::Relaxed) + 1 == MANY_CHUNKS
    }
}
