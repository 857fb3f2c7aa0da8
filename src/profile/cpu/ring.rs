//! The memory between the signal handlers and the thread that collects samples: a ring of records of
//! different lengths. Any number of handlers write, without a lock; one thread reads.
//!
//! - R1. A writer reserves words by moving `tail`; from then on they are its own. It stores the first word of
//!   the record last, with Release: the number of words, which is not 0.
//! - R2. The reader takes records in order, and stops at a first word of 0. It sets all words of a record
//!   to 0 before it moves `head` over them, so free words are 0.
//! - R3. A record does not wrap around: where it would, the writer fills the end of the ring with a record
//!   that has [`PAD`].

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys::mem;

/// Words in the ring: 16 MiB of addresses, of which memory is used where records are.
const WORDS: usize = 1 << 21;
/// In the first word of a record: it has no content.
const PAD: usize = 1 << 63;

pub(super) struct Ring {
    words: OnceLock<&'static [AtomicUsize]>,
    tail: AtomicUsize,
    head: AtomicUsize,
}

/// Words that a writer has reserved. All but the first are for [`words`](Reserved::words).
#[must_use]
pub(super) struct Reserved(&'static [AtomicUsize]);

impl Ring {
    pub(super) const fn new() -> Ring {
        Ring { words: OnceLock::new(), tail: AtomicUsize::new(0), head: AtomicUsize::new(0) }
    }

    /// Gets the memory, unless the ring has it.
    pub(super) fn fill(&self) -> io::Result<()> {
        if self.words.get().is_none() {
            let words = mem::reserve(WORDS * size_of::<usize>())? as *const AtomicUsize;
            // SAFETY: the mapping is new, zeroed, large enough, and never unmapped.
            let words = unsafe { std::slice::from_raw_parts(words, WORDS) };
            let _another_thread_was_faster = self.words.set(words);
        }
        Ok(())
    }

    /// Reserves room for a record of `count` words. `None`: there is no room. Safe in a signal handler.
    pub(super) fn reserve(&self, count: usize) -> Option<Reserved> {
        let words = self.words.get()?;
        let count = count + 1;
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            let place = tail % WORDS;
            let rest = if place + count > WORDS { WORDS - place } else { 0 };
            // Acquire pairs with the Release in `take`: the words are 0.
            let room = WORDS - tail.wrapping_sub(self.head.load(Ordering::Acquire)).min(WORDS);
            if rest + count > room {
                return None;
            }
            let next = tail.wrapping_add(rest + count);
            match self.tail.compare_exchange_weak(tail, next, Ordering::Relaxed, Ordering::Relaxed) {
                Err(now) => tail = now,
                Ok(_) => {
                    if rest != 0 {
                        words[place].store(rest | PAD, Ordering::Release); // R3
                    }
                    return Some(Reserved(&words[(place + rest) % WORDS..][..count]));
                }
            }
        }
    }

    /// For the reader: passes the oldest record to `take`. False: there is none, or it is still being
    /// written.
    pub(super) fn take(&self, take: impl FnOnce(&[AtomicUsize])) -> bool {
        let Some(words) = self.words.get() else { return false };
        let head = self.head.load(Ordering::Relaxed);
        // Acquire pairs with the Release of the writer: R1.
        let first = words[head % WORDS].load(Ordering::Acquire);
        if first == 0 {
            return false;
        }
        let record = &words[head % WORDS..][..first & !PAD];
        if first & PAD == 0 {
            take(&record[1..]);
        }
        // To write to a page that was not used would cost memory.
        let written = record.iter().filter(|word| word.load(Ordering::Relaxed) != 0);
        written.for_each(|word| word.store(0, Ordering::Relaxed));
        self.head.store(head.wrapping_add(record.len()), Ordering::Release);
        true
    }

    /// Whether every record that was begun has been read.
    pub(super) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Relaxed)
    }
}

impl Reserved {
    /// The words for the content.
    pub(super) fn words(&self) -> &'static [AtomicUsize] {
        &self.0[1..]
    }

    /// The record is complete.
    pub(super) fn publish(self) {
        self.0[0].store(self.0.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_many_threads_arrive_whole_and_a_full_ring_refuses() {
        const RECORDS: usize = 20_000;
        let ring = Ring::new();
        ring.fill().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let ring = &ring;
                scope.spawn(move || {
                    for n in 0..RECORDS {
                        // Together they are several times as long as the ring.
                        let length = 2 + (n * 7 + thread) % 100;
                        let reserved = loop {
                            match ring.reserve(length) {
                                Some(reserved) => break reserved,
                                None => std::thread::yield_now(),
                            }
                        };
                        for word in reserved.words() {
                            word.store(thread << 32 | n, Ordering::Relaxed);
                        }
                        assert_eq!(reserved.words().len(), length);
                        reserved.publish();
                    }
                });
            }
            let mut next = [0; 4];
            while next != [RECORDS; 4] {
                let took = ring.take(|words| {
                    let first = words[0].load(Ordering::Relaxed);
                    let (thread, n) = (first >> 32, first & 0xffff_ffff);
                    assert_eq!((n, words.len()), (next[thread], 2 + (n * 7 + thread) % 100));
                    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == first));
                    next[thread] += 1;
                });
                if !took {
                    std::thread::yield_now();
                }
            }
        });
        assert!(ring.is_empty() && !ring.take(|_| ()));
        let fits = (0..WORDS).take_while(|_| ring.reserve(999).map(Reserved::publish).is_some()).count();
        assert!((WORDS / 1000 - 1..=WORDS / 1000).contains(&fits), "{fits}");
        assert!(ring.take(|_| ()));
        ring.reserve(900).unwrap().publish();
    }
}
