//! Go's trace format: the bytes of one generation. `docs/decisions/056-traces.md` says what the format asks
//! for.
//!
//! A generation consists of batches of events, each of one thread, and of tables of the strings and stacks
//! that they refer to. Numbers are LEB128; times are in units of 64 ns, as differences within a batch.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::symbols::{Frame, Symbols};
use crate::sys::clock::nanotime;

/// The first bytes of a trace.
pub(super) const HEADER: &[u8; 16] = b"go 1.26 trace\0\0\0";

/// Units of time in a second; a unit has [`UNIT`] ns.
const FREQUENCY: u64 = 1_000_000_000 / UNIT;
pub(super) const UNIT: u64 = 64;

/// The thread of tables.
const NO_THREAD: u64 = u64::MAX;
/// A batch is written when it has this many bytes; the format allows 64 KiB.
const BATCH: usize = 60_000;
/// The longest string (bytes), and the most frames of a stack.
const MOST_STRING: usize = 1024;
const MOST_FRAMES: usize = 128;

/// Types of events and tables.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Type {
    EventBatch = 1,
    Stacks = 2,
    Stack = 3,
    Strings = 4,
    String = 5,
    #[cfg(feature = "debug")]
    CpuSamples = 6,
    #[cfg(feature = "debug")]
    CpuSample = 7,
    Frequency = 8,
    ProcStart = 10,
    ProcStop = 11,
    ProcSteal = 12,
    ProcStatus = 13,
    GoCreate = 14,
    GoStart = 16,
    GoDestroy = 17,
    GoStop = 19,
    GoBlock = 20,
    GoUnblock = 21,
    GoSyscallBegin = 22,
    GoSyscallEnd = 23,
    GoSyscallEndBlocked = 24,
    GoStatus = 25,
    UserTaskBegin = 40,
    UserTaskEnd = 41,
    UserRegionBegin = 42,
    UserRegionEnd = 43,
    UserLog = 44,
    GoStatusStack = 48,
    Sync = 50,
    ClockSnapshot = 51,
    EndOfGeneration = 52,
}

pub(super) fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The events of one thread that are not in a batch yet.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    /// The times of the first and of the last event.
    first: u64,
    last: u64,
}

/// A stack: addresses, or the one frame of a place in the source.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Stack {
    Addresses(Box<[usize]>),
    Place(Frame),
}

/// A generation that is being written.
pub(super) struct Generation {
    number: u64,
    out: Vec<u8>,
    streams: HashMap<u64, Stream>,
    strings: HashMap<Box<str>, u64>,
    stacks: HashMap<Stack, u64>,
    /// The time at which it began (units).
    began: u64,
    /// The thread and the time (units) of the last event.
    last: (u64, u64),
    pub(super) events: u64,
}

impl Generation {
    /// A generation that begins at `now` (ns).
    pub(super) fn new(number: u64, now: u64) -> Generation {
        Generation {
            number,
            out: Vec::new(),
            streams: HashMap::new(),
            strings: HashMap::new(),
            stacks: HashMap::new(),
            began: now / UNIT,
            last: (NO_THREAD, now / UNIT),
            events: 0,
        }
    }

    /// Appends an event of a thread. `now` (ns) never decreases.
    ///
    /// Events of different threads never get the same time. If they did, and the second needed the first,
    /// Go's reader could fail: it tries the first event of each thread in the order of times, and may leave
    /// out one of several that are equally early.
    pub(super) fn event(&mut self, thread: u64, now: u64, event: Type, arguments: &[u64]) {
        let (last_thread, last_time) = self.last;
        let time = (now / UNIT).max(last_time + u64::from(last_thread != thread));
        self.last = (thread, time);
        let number = self.number;
        let stream = self.streams.entry(thread).or_default();
        if stream.bytes.len() >= BATCH {
            push_batch(&mut self.out, number, thread, stream);
        }
        if stream.bytes.is_empty() {
            (stream.first, stream.last) = (time, time);
        }
        stream.bytes.push(event as u8);
        push_number(&mut stream.bytes, time - stream.last);
        stream.last = time;
        for &argument in arguments {
            push_number(&mut stream.bytes, argument);
        }
        self.events += 1;
    }

    /// The number of a string in this generation.
    pub(super) fn string(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.strings.get(text) {
            return number;
        }
        let number = self.strings.len() as u64 + 1;
        self.strings.insert(text.into(), number);
        number
    }

    /// The number of a stack in this generation.
    pub(super) fn stack(&mut self, stack: &Stack) -> u64 {
        if let Some(&number) = self.stacks.get(stack) {
            return number;
        }
        let number = self.stacks.len() as u64 + 1;
        self.stacks.insert(stack.clone(), number);
        number
    }

    /// How many bytes the events need so far.
    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// The bytes of the generation.
    pub(super) fn finish(mut self, symbols: &mut Symbols) -> Vec<u8> {
        let mut streams: Vec<_> = std::mem::take(&mut self.streams).into_iter().collect();
        streams.sort_unstable_by_key(|(thread, _)| *thread);
        for (thread, mut stream) in streams {
            push_batch(&mut self.out, self.number, thread, &mut stream);
        }
        self.push_stacks(symbols);
        self.push_strings();
        self.push_sync();
        symbols.end_generation();
        self.out.push(Type::EndOfGeneration as u8);
        self.out
    }

    /// Writes a table.
    #[cfg(feature = "debug")]
    pub(super) fn push_table(&mut self, kind: Type, entries: &[Vec<u8>]) {
        let mut table = Table::new(kind);
        entries.iter().for_each(|entry| table.push(entry, &mut self.out, self.number, self.began));
        table.finish(&mut self.out, self.number, self.began);
    }

    fn push_stacks(&mut self, symbols: &mut Symbols) {
        let mut stacks: Vec<_> = std::mem::take(&mut self.stacks).into_iter().collect();
        stacks.sort_unstable_by_key(|(_, number)| *number);
        let mut table = Table::new(Type::Stacks);
        for (stack, number) in stacks {
            let frames = match stack {
                Stack::Addresses(addresses) => symbols.frames(&addresses),
                Stack::Place(frame) => vec![symbols.place(&frame)],
            };
            let frames = &frames[..frames.len().min(MOST_FRAMES)];
            let mut entry = vec![Type::Stack as u8];
            push_number(&mut entry, number);
            push_number(&mut entry, frames.len() as u64);
            for (counter, frame) in frames {
                push_number(&mut entry, *counter);
                push_number(&mut entry, self.string(&frame.function));
                push_number(&mut entry, self.string(&frame.file));
                push_number(&mut entry, frame.line.into());
            }
            table.push(&entry, &mut self.out, self.number, self.began);
        }
        table.finish(&mut self.out, self.number, self.began);
    }

    fn push_strings(&mut self) {
        let mut strings: Vec<_> = std::mem::take(&mut self.strings).into_iter().collect();
        strings.sort_unstable_by_key(|(_, number)| *number);
        let mut table = Table::new(Type::Strings);
        for (text, number) in strings {
            let end = (0..=text.len().min(MOST_STRING)).rev().find(|&end| text.is_char_boundary(end));
            let text = &text.as_bytes()[..end.unwrap_or(0)];
            let mut entry = vec![Type::String as u8];
            push_number(&mut entry, number);
            push_number(&mut entry, text.len() as u64);
            entry.extend_from_slice(text);
            table.push(&entry, &mut self.out, self.number, self.began);
        }
        table.finish(&mut self.out, self.number, self.began);
    }

    fn push_sync(&mut self) {
        // The wall clock at the time when the generation began.
        let ago = Duration::from_nanos(nanotime().saturating_sub(self.began * UNIT));
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(ago);
        let mut bytes = vec![Type::Sync as u8, Type::Frequency as u8];
        push_number(&mut bytes, FREQUENCY);
        bytes.push(Type::ClockSnapshot as u8);
        for number in [0, self.began * UNIT, wall.as_secs(), wall.subsec_nanos().into()] {
            push_number(&mut bytes, number);
        }
        push_bytes(&mut self.out, self.number, NO_THREAD, self.began, &bytes);
    }
}

fn push_batch(out: &mut Vec<u8>, generation: u64, thread: u64, stream: &mut Stream) {
    push_bytes(out, generation, thread, stream.first, &stream.bytes);
    stream.bytes.clear();
}

fn push_bytes(out: &mut Vec<u8>, generation: u64, thread: u64, time: u64, bytes: &[u8]) {
    out.push(Type::EventBatch as u8);
    for number in [generation, thread, time, bytes.len() as u64] {
        push_number(out, number);
    }
    out.extend_from_slice(bytes);
}

/// Entries of a table, in as many batches as they need.
struct Table {
    kind: Type,
    bytes: Vec<u8>,
}

impl Table {
    fn new(kind: Type) -> Table {
        Table { kind, bytes: vec![kind as u8] }
    }

    fn push(&mut self, entry: &[u8], out: &mut Vec<u8>, generation: u64, time: u64) {
        if self.bytes.len() + entry.len() > BATCH {
            push_bytes(out, generation, NO_THREAD, time, &self.bytes);
            self.bytes.truncate(1);
        }
        self.bytes.extend_from_slice(entry);
    }

    fn finish(self, out: &mut Vec<u8>, generation: u64, time: u64) {
        if self.bytes.len() > 1 {
            debug_assert_eq!(self.bytes[0], self.kind as u8);
            push_bytes(out, generation, NO_THREAD, time, &self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_different_threads_have_different_times() {
        let mut generation = Generation::new(1, 640);
        let mut last = (0, 0);
        for (thread, now) in [(1, 640), (1, 640), (2, 640), (2, 640), (1, 650), (3, 6400), (1, 6400)] {
            generation.event(thread, now, Type::GoStop, &[]);
            assert!(
                generation.last.1 > last.1 || generation.last == last,
                "{:?} after {last:?}",
                generation.last
            );
            assert!(generation.last.1 >= now / UNIT);
            last = generation.last;
        }
    }

    fn number(bytes: &mut impl Iterator<Item = u8>) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes.next().unwrap();
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    #[test]
    fn the_time_on_the_wall_is_that_of_the_beginning() {
        const AGE: Duration = Duration::from_secs(100);
        /// A unit, and what the two clocks may drift apart meanwhile.
        const INEXACT: Duration = Duration::from_millis(1);
        let earliest = SystemTime::now() - AGE - INEXACT;
        let began = nanotime() - AGE.as_nanos() as u64;
        let bytes = Generation::new(1, began).finish(&mut Symbols::default());
        let latest = SystemTime::now() - AGE + INEXACT;
        let mut bytes = bytes.into_iter();
        assert_eq!(bytes.next(), Some(Type::EventBatch as u8), "there is no other batch");
        let [_generation, _thread, _time, _length] = [(); 4].map(|()| number(&mut bytes));
        assert_eq!(bytes.next(), Some(Type::Sync as u8));
        assert_eq!(bytes.next(), Some(Type::Frequency as u8));
        let _frequency = number(&mut bytes);
        assert_eq!(bytes.next(), Some(Type::ClockSnapshot as u8));
        let [_difference, own, secs, nanos] = [(); 4].map(|()| number(&mut bytes));
        assert_eq!(own, began / UNIT * UNIT);
        let wall = UNIX_EPOCH + Duration::new(secs, nanos as u32);
        assert!((earliest..=latest).contains(&wall), "{earliest:?} {wall:?} {latest:?}");
    }
}
