//! The log of one M: the place for its next record, in a chunk of the pool.

use std::cell::Cell;
use std::ptr;

use super::logs::Logs;
use super::pool::CHUNK;
use super::record::Record;
use crate::base::atomic::{AtomicU64, Ordering};

/// A record in memory. The first word is written last (V2).
#[repr(C)]
#[derive(Default)]
pub(crate) struct Place {
    pub(super) first: AtomicU64,
    pub(super) second: AtomicU64,
}

impl Place {
    #[inline]
    pub(super) fn write(&self, record: Record) {
        self.second.store(record.second, Ordering::Relaxed);
        // Release pairs with the Acquire in `read`.
        self.first.store(record.first, Ordering::Release);
    }

    pub(super) fn read(&self) -> Option<Record> {
        let first = self.first.load(Ordering::Acquire);
        (first != 0).then(|| Record { first, second: self.second.load(Ordering::Relaxed) })
    }
}

/// The log of an M. Only the M's thread uses it (V1).
pub(crate) struct Log {
    number: u32,
    next: Cell<*const Place>,
    end: Cell<*const Place>,
    /// How many chunks it has got. The reader expects chunks with these numbers, one after the other, so an
    /// attempt that found no memory must not count.
    chunks: Cell<u32>,
    /// When the last stack was sampled, and how long that took (ns).
    pub(super) last_sample: Cell<(u64, u64)>,
    /// Paths whose stacks were looked at lately, by a part of their hash.
    pub(super) sampled: [Cell<u16>; 64],
}

impl Log {
    /// The log of the M with this number.
    pub(crate) const fn new(number: u32) -> Log {
        Log {
            number,
            next: Cell::new(ptr::null()),
            end: Cell::new(ptr::null()),
            chunks: Cell::new(0),
            last_sample: Cell::new((0, 0)),
            sampled: [const { Cell::new(0) }; 64],
        }
    }

    /// Appends a record. If there is no memory for it, it is lost, and the reader will know. Returns whether
    /// the logs have become so long that the reader should look at them.
    #[inline]
    pub(super) fn append_to(&self, logs: &Logs, record: Record) -> bool {
        let place = self.next.get();
        if place == self.end.get() {
            return self.append_to_new_chunk(logs, record);
        }
        self.write(place, record);
        false
    }

    /// Writes to `place`, which is the next one.
    #[inline]
    fn write(&self, place: *const Place, record: Record) {
        // SAFETY: between `next` and `end` lie places of a chunk that belongs to this log; chunks are never
        // unmapped.
        unsafe {
            (*place).write(record);
            self.next.set(place.add(1));
        }
    }

    #[cold]
    fn append_to_new_chunk(&self, logs: &Logs, record: Record) -> bool {
        let used = self.chunks.get();
        match logs.pool.take(self.number, used) {
            Some(start) => {
                self.chunks.set(used.wrapping_add(1));
                // SAFETY: a chunk has that many places.
                self.end.set(unsafe { start.add(CHUNK) });
                self.write(start, record);
            }
            None => {
                self.next.set(ptr::null());
                self.end.set(ptr::null());
                logs.count_loss();
            }
        }
        logs.count_chunk()
    }
}
