//! One generation: its batches by M, and the strings, stacks, CPU samples and clock that its events refer to.
//!
//! The tables may come after the events that use them, so a generation is read as a whole before its first
//! event is decoded. A generation without an end mark is incomplete and not used.

use std::collections::HashMap;

use crate::batch::{self, Batch, Piece};
use crate::error::Error;
use crate::spec;
use crate::tables::{Frame, StackId, Stacks, StringId, Strings};
use crate::wire::Cursor;

/// The event batches of one M, in their order.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) m: u64,
    pub(crate) batches: Vec<Batch>,
}

/// A CPU sample as it is in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawSample {
    pub(crate) time: u64,
    pub(crate) m: u64,
    pub(crate) p: u64,
    pub(crate) g: u64,
    pub(crate) stack: StackId,
}

#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) streams: Vec<Stream>,
    /// Sorted by time.
    pub(crate) samples: Vec<RawSample>,
    pub(crate) clock: Clock,
    /// The earliest time of a batch.
    pub(crate) start: u64,
    strings: HashMap<u64, StringId>,
    stacks: HashMap<u64, StackId>,
}

/// How times of a generation relate to seconds, and to the clock on the wall.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// Units a second.
    frequency: u64,
    /// The snapshot: a time of the trace, and the seconds and nanoseconds since 1970 at that time.
    snapshot: Option<(u64, u64, u64)>,
}

impl Clock {
    /// A time in nanoseconds; at most `i64::MAX`.
    pub(crate) fn nanoseconds(&self, time: u64) -> u64 {
        let ns = u128::from(time) * 1_000_000_000 / u128::from(self.frequency.max(1));
        ns.min(i64::MAX as u128) as u64
    }

    /// Nanoseconds since 1970 at a time of the trace.
    pub(crate) fn wall(&self, time: u64) -> Option<i128> {
        let (at, seconds, nanoseconds) = self.snapshot?;
        let at_snapshot = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        Some(at_snapshot - i128::from(self.nanoseconds(at)) + i128::from(self.nanoseconds(time)))
    }
}

impl Generation {
    /// Reads the generation at the cursor; `None` at the end of the file.
    pub(crate) fn read<'a>(
        file: &'a [u8],
        cursor: &mut Cursor<'a>,
        strings: &mut Strings<'a>,
        stacks: &mut Stacks,
    ) -> Result<Option<Generation>, Error> {
        let start = cursor.at();
        let mut batches: Vec<Batch> = Vec::new();
        loop {
            let at = cursor.at();
            match batch::next(cursor)? {
                Some(Piece::Batch(batch)) => {
                    let number = batches.first().map_or(batch.generation, |first| first.generation);
                    if batch.generation != number {
                        let found = batch.generation;
                        return Err(Error::broken(
                            at,
                            format!("a batch of generation {found} inside of generation {number}"),
                        ));
                    }
                    batches.push(batch);
                }
                Some(Piece::EndOfGeneration) => break,
                None if batches.is_empty() => return Ok(None),
                None => {
                    let number = batches[0].generation;
                    return Err(Error::truncated(
                        at,
                        format!("the file ends inside of generation {number}, which begins at byte {start}"),
                    ));
                }
            }
        }
        if batches.is_empty() {
            return Err(Error::broken(start, "a generation without a batch"));
        }
        Generation::decode(file, cursor.at() - 1, batches, strings, stacks).map(Some)
    }

    /// Sorts the batches by their kind, and reads the tables. `end` is the offset of the end mark.
    fn decode<'a>(
        file: &'a [u8],
        end: usize,
        batches: Vec<Batch>,
        strings: &mut Strings<'a>,
        stacks: &mut Stacks,
    ) -> Result<Generation, Error> {
        let mut generation = Generation {
            number: batches[0].generation,
            streams: Vec::new(),
            samples: Vec::new(),
            clock: Clock::default(),
            start: batches.iter().map(|batch| batch.time).min().unwrap_or(0),
            strings: HashMap::new(),
            stacks: HashMap::new(),
        };
        let (mut stack_batches, mut sample_batches) = (Vec::new(), Vec::new());
        let mut streams: HashMap<u64, usize> = HashMap::new();
        for batch in batches {
            if batch.experimental || batch.data.is_empty() {
                continue;
            }
            let mut cursor = Cursor::new(file, batch.data.start + 1, batch.data.end);
            match file[batch.data.start] {
                spec::STRINGS => generation.add_strings(&mut cursor, strings)?,
                spec::STACKS => stack_batches.push(cursor),
                spec::CPU_SAMPLES => sample_batches.push(cursor),
                spec::SYNC => generation.add_sync(&mut cursor, batch.time)?,
                _ => {
                    let list = &mut generation.streams;
                    let index = *streams.entry(batch.m).or_insert_with(|| {
                        list.push(Stream { m: batch.m, batches: Vec::new() });
                        list.len() - 1
                    });
                    list[index].batches.push(batch);
                }
            }
        }
        for mut cursor in stack_batches {
            generation.add_stacks(&mut cursor, stacks)?;
        }
        for mut cursor in sample_batches {
            generation.add_samples(&mut cursor)?;
        }
        generation.samples.sort_by_key(|sample| sample.time);
        let number = generation.number;
        if generation.clock.frequency == 0 {
            return Err(Error::broken(end, format!("generation {number} has no clock frequency")));
        }
        if generation.clock.snapshot.is_none() {
            return Err(Error::broken(end, format!("generation {number} has no clock snapshot")));
        }
        Ok(generation)
    }

    fn add_strings<'a>(&mut self, cursor: &mut Cursor<'a>, strings: &mut Strings<'a>) -> Result<(), Error> {
        while !cursor.is_at_end() {
            let at = cursor.at();
            expect(cursor, spec::STRING, "a string")?;
            let id = cursor.number("a string's id")?;
            let length = cursor.number("a string's length")?;
            if length > spec::MAX_STRING {
                return Err(Error::broken(
                    at,
                    format!("a string of {length} bytes; at most {} are allowed", spec::MAX_STRING),
                ));
            }
            let text = strings.add(cursor.bytes(length as usize, "a string")?); // at most MAX_STRING
            if self.strings.insert(id, text).is_some_and(|old| old != text) {
                return Err(Error::broken(at, format!("string {id} is defined twice")));
            }
        }
        Ok(())
    }

    fn add_stacks(&mut self, cursor: &mut Cursor<'_>, stacks: &mut Stacks) -> Result<(), Error> {
        let mut frames = Vec::new();
        while !cursor.is_at_end() {
            let at = cursor.at();
            expect(cursor, spec::STACK, "a stack")?;
            let id = cursor.number("a stack's id")?;
            let count = cursor.number("a stack's number of frames")?;
            if count > spec::MAX_FRAMES {
                return Err(Error::broken(
                    at,
                    format!("a stack of {count} frames; at most {} are allowed", spec::MAX_FRAMES),
                ));
            }
            frames.clear();
            for _ in 0..count {
                let at = cursor.at();
                cursor.number("a frame's address")?;
                let function = cursor.number("a frame's function")?;
                let file = cursor.number("a frame's file")?;
                let line = cursor.number("a frame's line")?;
                let (function, file) = (self.string(function, at)?, self.string(file, at)?);
                frames.push(Frame { function, file, line });
            }
            let stack = stacks.add(&frames);
            if self.stacks.insert(id, stack).is_some_and(|old| old != stack) {
                return Err(Error::broken(at, format!("stack {id} is defined twice")));
            }
        }
        Ok(())
    }

    fn add_samples(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        while !cursor.is_at_end() {
            let at = cursor.at();
            expect(cursor, spec::CPU_SAMPLE, "a CPU sample")?;
            let mut number = || cursor.number("a CPU sample");
            let (time, m, p, g, stack) = (number()?, number()?, number()?, number()?, number()?);
            let stack = self.stack(stack, at)?;
            self.samples.push(RawSample { time, m, p, g, stack });
        }
        Ok(())
    }

    fn add_sync(&mut self, cursor: &mut Cursor<'_>, time: u64) -> Result<(), Error> {
        while !cursor.is_at_end() {
            let at = cursor.at();
            match cursor.byte("an event of the clock")? {
                spec::FREQUENCY if self.clock.frequency == 0 => {
                    self.clock.frequency = cursor.number("the clock's frequency")?;
                }
                spec::CLOCK_SNAPSHOT if self.clock.snapshot.is_none() => {
                    let mut number = || cursor.number("a clock snapshot");
                    let (delta, _monotonic, seconds, nanoseconds) =
                        (number()?, number()?, number()?, number()?);
                    self.clock.snapshot = Some((time.saturating_add(delta), seconds, nanoseconds));
                }
                spec::FREQUENCY | spec::CLOCK_SNAPSHOT => {
                    return Err(Error::broken(at, "the clock's frequency or snapshot is there twice"));
                }
                other => {
                    return Err(Error::broken(
                        at,
                        format!("expected the clock's frequency or snapshot, found event type {other}"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The string with the generation's id. 0 is the empty string.
    pub(crate) fn string(&self, id: u64, at: usize) -> Result<StringId, Error> {
        match self.strings.get(&id) {
            Some(&string) => Ok(string),
            None if id == 0 => Ok(0),
            None => Err(Error::broken(at, format!("generation {} has no string {id}", self.number))),
        }
    }

    /// The stack with the generation's id. 0 is the empty stack.
    pub(crate) fn stack(&self, id: u64, at: usize) -> Result<StackId, Error> {
        match self.stacks.get(&id) {
            Some(&stack) => Ok(stack),
            None if id == 0 => Ok(0),
            None => Err(Error::broken(at, format!("generation {} has no stack {id}", self.number))),
        }
    }
}

fn expect(cursor: &mut Cursor<'_>, wanted: spec::Kind, what: &str) -> Result<(), Error> {
    let at = cursor.at();
    let found = cursor.byte(what)?;
    if found == wanted {
        Ok(())
    } else {
        Err(Error::broken(at, format!("expected {what}, found event type {found}")))
    }
}
