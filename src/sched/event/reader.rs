//! Reading the event logs: the one reader of the process (`trace/intake.rs`).

use super::EVENTS;
use super::pool::CHUNK;
use super::record::Record;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// The number of the log of all threads that are not Ms.
pub(crate) const OUTSIDE: u32 = u32::MAX;

/// What the reader knows about the logs.
pub(crate) struct Reader {
    /// For each chunk in use: how many of its records were read.
    cursors: Vec<usize>,
    /// For each log: the number of its next chunk, or of the one that is not read to the end.
    next: BTreeMap<u32, u32>,
    lost: u64,
    /// Records on their way out.
    buffer: Vec<Record>,
}

impl Reader {
    pub(crate) const fn new() -> Reader {
        Reader { cursors: Vec::new(), next: BTreeMap::new(), lost: 0, buffer: Vec::new() }
    }

    /// Forgets everything that was written so far.
    pub(crate) fn skip(&mut self) {
        self.read(|_, _| ());
        self.lost = EVENTS.lost.load(Ordering::Relaxed);
    }

    /// Passes all records that were written since the last call to `take`, with the number of their log;
    /// those of one log in order. False: some were lost.
    pub(crate) fn read(&mut self, mut take: impl FnMut(u32, &[Record])) -> bool {
        EVENTS.fresh.store(0, Ordering::Relaxed);
        EVENTS.pool.look_at_all();
        let mut chunks: Vec<(u32, u32, usize)> = EVENTS.pool.in_use().collect();
        // The numbers of a log's chunks wrap around after 2^32 of them, which is 30 TB.
        chunks.sort_unstable();
        for (log, number, index) in chunks {
            // The list is not of one moment: it may lack a chunk that was taken before this one.
            let next = self.next.entry(log).or_default();
            if *next != number {
                continue;
            }
            if self.cursors.len() <= index {
                self.cursors.resize(index + 1, 0);
            }
            let cursor = &mut self.cursors[index];
            self.buffer.clear();
            self.buffer.extend((*cursor..CHUNK).map_while(|place| EVENTS.pool.read(index, place)));
            *cursor += self.buffer.len();
            if *cursor == CHUNK {
                *cursor = 0;
                *next = number.wrapping_add(1);
                EVENTS.pool.give_back(index);
            }
            if !self.buffer.is_empty() {
                take(log, &self.buffer);
            }
        }
        loop {
            self.buffer.clear();
            self.buffer.extend((0..CHUNK).map_while(|_| EVENTS.outside.take()));
            if self.buffer.is_empty() {
                break;
            }
            take(OUTSIDE, &self.buffer);
        }
        // A loss is counted before the log's next record is written, so this sees it.
        let lost = EVENTS.lost.load(Ordering::Relaxed);
        std::mem::replace(&mut self.lost, lost) == lost
    }

    /// Whether more than half of the memory is in use.
    pub(crate) fn is_behind(&self) -> bool {
        let (used, all) = EVENTS.pool.used();
        used * 2 > all
    }
}
