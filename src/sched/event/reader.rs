//! Reading the event logs: the one reader of the process (`trace/intake.rs`).

use std::collections::BTreeMap;

use super::logs::Logs;
use super::pool::CHUNK;
use super::record::Record;
use crate::base::atomic::Ordering;

/// The number of the log of all threads that are not Ms.
pub(crate) const OUTSIDE: u32 = u32::MAX;

/// What the reader knows about the logs.
pub(crate) struct Reader {
    /// For each chunk in use: how many of its records were read.
    cursors: Vec<usize>,
    /// For each log: the number of its next chunk, or of the one that is not read to the end.
    next: BTreeMap<u32, u32>,
    /// How many losses were seen, and whether the last read has seen one.
    lost: u64,
    has_lost: bool,
    /// Records on their way out.
    buffer: Vec<Record>,
}

impl Reader {
    pub(crate) const fn new() -> Reader {
        Reader { cursors: Vec::new(), next: BTreeMap::new(), lost: 0, has_lost: false, buffer: Vec::new() }
    }

    /// Forgets everything that was written so far.
    pub(crate) fn skip(&mut self, logs: &Logs) {
        // The second read finds what came before a loss that the first one has seen.
        self.read(logs, |_, _| ());
        self.read(logs, |_, _| ());
        self.has_lost = false;
    }

    /// Passes all records that were written since the last call to `take`, with the number of their log;
    /// those of one log in order. False: some were lost. The losses may have come after these records and
    /// before those of the next call, so that one says false, too.
    pub(crate) fn read(&mut self, logs: &Logs, mut take: impl FnMut(u32, &[Record])) -> bool {
        logs.fresh.store(0, Ordering::Relaxed);
        logs.pool.look_at_all();
        let mut chunks: Vec<(u32, u32, usize)> = logs.pool.in_use().collect();
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
            self.buffer.extend((*cursor..CHUNK).map_while(|place| logs.pool.read(index, place)));
            *cursor += self.buffer.len();
            if *cursor == CHUNK {
                *cursor = 0;
                *next = number.wrapping_add(1);
                logs.pool.give_back(index);
            }
            if !self.buffer.is_empty() {
                take(log, &self.buffer);
            }
        }
        loop {
            self.buffer.clear();
            self.buffer.extend((0..CHUNK).map_while(|_| logs.outside.take()));
            if self.buffer.is_empty() {
                break;
            }
            take(OUTSIDE, &self.buffer);
        }
        // A loss is counted before the log's next record is written, so this sees it.
        let lost = logs.lost.load(Ordering::Acquire);
        let has_lost = std::mem::replace(&mut self.lost, lost) != lost;
        !std::mem::replace(&mut self.has_lost, has_lost) && !has_lost
    }

    /// Whether more than half of the memory is in use.
    pub(crate) fn is_behind(logs: &Logs) -> bool {
        let (used, all) = logs.pool.used();
        used * 2 > all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::event::log::Log;
    use crate::sched::event::record::Kind;

    const CHUNKS: usize = 3;

    /// Writes records with these numbers.
    fn write(log: &Log, logs: &Logs, numbers: std::ops::Range<u64>) {
        for number in numbers {
            log.append_to(logs, Record::new(Kind::Log, 0, 1, number));
        }
    }

    /// What a read finds in the log with this number, and whether that is everything.
    fn read(reader: &mut Reader, logs: &Logs, of: u32) -> (Vec<u64>, bool) {
        let mut found = Vec::new();
        let whole = reader.read(logs, |log, records| {
            if log == of {
                found.extend(records.iter().map(|record| record.second));
            }
        });
        (found, whole)
    }

    #[test]
    fn a_log_that_found_no_memory_is_read_again_when_there_is_some() {
        let logs = Logs::new(CHUNKS);
        logs.fill().unwrap();
        let (log, mut reader) = (Log::new(7), Reader::new());
        let all = (CHUNKS * CHUNK) as u64;
        for round in 0..3 {
            let from = round * 10 * all;
            // Many attempts fail, each of which would need another chunk.
            write(&log, &logs, from..from + 3 * all);
            assert_eq!(logs.pool.used(), (CHUNKS, CHUNKS));
            assert_eq!(read(&mut reader, &logs, 7), ((from..from + all).collect(), false));
            assert_eq!(logs.pool.used(), (0, CHUNKS));
            assert_eq!(read(&mut reader, &logs, 7), (vec![], false));
            // What comes after the gap is found, and its memory is given back.
            let after = from + 5 * all..from + 6 * all;
            write(&log, &logs, after.clone());
            assert_eq!(read(&mut reader, &logs, 7), (after.collect(), true));
            assert_eq!(logs.pool.used(), (0, CHUNKS));
        }
    }

    #[test]
    fn one_log_that_took_all_memory_does_not_stop_others_for_good() {
        let logs = Logs::new(CHUNKS);
        logs.fill().unwrap();
        let (greedy, modest, mut reader) = (Log::new(0), Log::new(1), Reader::new());
        write(&greedy, &logs, 0..(CHUNKS * CHUNK) as u64);
        write(&modest, &logs, 0..2);
        assert_eq!(read(&mut reader, &logs, 1), (vec![], false));
        assert_eq!(read(&mut reader, &logs, 1), (vec![], false));
        write(&modest, &logs, 2..5);
        assert_eq!(read(&mut reader, &logs, 1), (vec![2, 3, 4], true));
        write(&modest, &logs, 5..6);
        assert_eq!(read(&mut reader, &logs, 1), (vec![5], true));
    }
}
