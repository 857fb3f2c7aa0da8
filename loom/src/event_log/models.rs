//! Models of the event logs (V1 to V4 in `src/sched/event/mod.rs`): Ms write, and one reader reads, while
//! chunks of two records go from the pool to a log, to the reader and back.

use std::ops::Range;
use std::sync::OnceLock;

use loom::sync::Arc;
use loom::thread;

use super::log::Log;
use super::logs::Logs;
use super::outside::Outside;
use super::pool::Pool;
use super::reader::{OUTSIDE, Reader};
use super::record::{Kind, Record};
use crate::base::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use crate::models::check;

fn logs(chunks: usize) -> Arc<Logs> {
    let logs = Logs {
        pool: Pool { chunks, memory: OnceLock::new(), first_free: AtomicUsize::new(0) },
        outside: Outside { ring: OnceLock::new(), tail: AtomicUsize::new(0), head: AtomicUsize::new(0) },
        lost: AtomicU64::new(0),
        fresh: AtomicU32::new(0),
    };
    logs.fill().expect("a small block");
    Arc::new(logs)
}

fn record(log: u32, number: u64) -> Record {
    Record::new(Kind::Log, 0, number, u64::from(log) << 32 | number)
}

/// Writes records with these numbers.
fn write(log: &Log, name: u32, logs: &Logs, numbers: Range<u64>) {
    for number in numbers {
        log.append_to(logs, record(name, number));
    }
}

/// Reads. Both words of each record belong together. Returns the numbers of the records of each of two logs,
/// those of threads that are not Ms, and whether they are all that were written.
fn read(reader: &mut Reader, logs: &Logs) -> ([Vec<u64>; 3], bool) {
    let mut found = [vec![], vec![], vec![]];
    let whole = reader.read(logs, |log, records| {
        for found_record in records {
            assert_eq!(*found_record, record(log, found_record.value()));
            found[(log as usize).min(2)].push(found_record.value());
        }
    });
    (found, whole)
}

fn is_in_order(numbers: &[u64]) -> bool {
    numbers.windows(2).all(|pair| pair[0] < pair[1])
}

/// With enough memory nothing is lost, whatever was read before the writer was done, and chunks are used
/// again.
pub fn what_is_written_is_read_once_and_in_order() {
    check(Some(3), || {
        let logs = logs(3);
        let writer = thread::spawn({
            let logs = logs.clone();
            move || write(&Log::new(0), 0, &logs, 0..5)
        });
        let mut reader = Reader::new();
        let mut all = vec![];
        for _ in 0..2 {
            let (found, whole) = read(&mut reader, &logs);
            assert!(whole);
            all.extend_from_slice(&found[0]);
        }
        writer.join().unwrap();
        // The list of chunks in an earlier read may have lacked one, so this reads the rest.
        let (found, whole) = read(&mut reader, &logs);
        all.extend_from_slice(&found[0]);
        assert!(whole && all == [0, 1, 2, 3, 4], "{all:?}");
        assert_eq!(logs.pool.used().0, 1, "only the chunk that is not full is in use");
    });
}

/// A pool that is too small: what a read without a loss finds follows what was found before it, and once the
/// writer has stopped, the next records are all found and all memory comes back.
pub fn a_loss_is_known_before_what_follows_it_and_does_not_last() {
    check(Some(3), || {
        let logs = logs(1);
        let writer = thread::spawn({
            let logs = logs.clone();
            move || {
                let log = Log::new(0);
                write(&log, 0, &logs, 0..5);
                log
            }
        });
        let mut reader = Reader::new();
        let mut next = Some(0);
        let mut see = |(found, whole): ([Vec<u64>; 3], bool)| {
            assert!(is_in_order(&found[0]), "{found:?}");
            if let (true, Some(next)) = (whole, next) {
                assert!(found[0].iter().copied().eq(next..next + found[0].len() as u64), "{found:?}");
            }
            // After a loss any number may come first.
            next = match (whole, found[0].last(), next) {
                (true, Some(&last), _) => Some(last + 1),
                (true, None, next) => next,
                (false, ..) => None,
            };
        };
        see(read(&mut reader, &logs));
        see(read(&mut reader, &logs));
        let log = writer.join().unwrap();
        see(read(&mut reader, &logs));
        see(read(&mut reader, &logs));
        let (found, whole) = read(&mut reader, &logs);
        assert!(whole && found[0].is_empty());
        // The log may be in the middle of a chunk.
        for number in 6..9 {
            write(&log, 0, &logs, number..number + 1);
            let (found, whole) = read(&mut reader, &logs);
            assert!(whole && found[0] == [number], "{found:?}");
        }
    });
}

/// Two logs and a thread that is not an M want more memory than there is.
pub fn logs_that_compete_for_memory_have_different_chunks() {
    check(Some(1), || {
        let logs = logs(2);
        let writers = [0, 1].map(|name| {
            let logs = logs.clone();
            thread::spawn(move || {
                write(&Log::new(name), name, &logs, 0..3);
                if name == 1 {
                    logs.append_outside(1, std::iter::once(record(OUTSIDE, 7)));
                }
            })
        });
        let mut reader = Reader::new();
        let (first, _) = read(&mut reader, &logs);
        for writer in writers {
            writer.join().unwrap();
        }
        let (second, _) = read(&mut reader, &logs);
        for log in 0..2 {
            let all = [&first[log][..], &second[log][..]].concat();
            assert!(is_in_order(&all), "{all:?}");
        }
        assert_eq!([&first[2][..], &second[2][..]].concat(), [7]);
        read(&mut reader, &logs);
        assert!(read(&mut reader, &logs).1);
    });
}

/// A step that others see only after it was written down (V3) is found by a second read, if the first one has
/// found what followed from it.
pub fn who_has_seen_a_consequence_finds_its_cause() {
    check(Some(2), || {
        let logs = logs(4);
        let done = Arc::new(AtomicUsize::new(0));
        let cause = thread::spawn({
            let (logs, done) = (logs.clone(), done.clone());
            move || {
                write(&Log::new(0), 0, &logs, 0..3);
                done.store(1, loom::sync::atomic::Ordering::Release);
            }
        });
        let effect = thread::spawn({
            let (logs, done) = (logs.clone(), done.clone());
            move || {
                if done.load(loom::sync::atomic::Ordering::Acquire) == 1 {
                    write(&Log::new(1), 1, &logs, 0..1);
                }
            }
        });
        let mut reader = Reader::new();
        let (first, _) = read(&mut reader, &logs);
        let (second, _) = read(&mut reader, &logs);
        if !first[1].is_empty() {
            assert_eq!([&first[0][..], &second[0][..]].concat(), [0, 1, 2]);
        }
        cause.join().unwrap();
        effect.join().unwrap();
    });
}
