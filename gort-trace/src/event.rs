//! Decodes the events of one M, batch after batch.

use crate::error::Error;
use crate::generation::Stream;
use crate::spec::{self, Kind, MAX_ARGS};
use crate::wire::Cursor;

/// An event of an M. The meaning of the arguments depends on the kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// The offset in the file.
    pub(crate) offset: usize,
    /// In units of the generation's clock.
    pub(crate) time: u64,
    pub(crate) args: [u64; MAX_ARGS],
}

/// The events of one M in one generation.
#[derive(Debug)]
pub(crate) struct Events<'a> {
    file: &'a [u8],
    stream: &'a Stream,
    next_batch: usize,
    cursor: Cursor<'a>,
    time: u64,
}

impl<'a> Events<'a> {
    pub(crate) fn new(file: &'a [u8], stream: &'a Stream) -> Events<'a> {
        Events { file, stream, next_batch: 0, cursor: Cursor::new(file, 0, 0), time: 0 }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Event>, Error> {
        while self.cursor.is_at_end() {
            let Some(batch) = self.stream.batches.get(self.next_batch) else { return Ok(None) };
            self.next_batch += 1;
            self.cursor = Cursor::new(self.file, batch.data.start, batch.data.end);
            self.time = batch.time;
        }
        let offset = self.cursor.at();
        let kind = self.cursor.byte("an event")?;
        let Some((name, count)) = spec::timed(kind) else {
            return Err(Error::broken(offset, format!("unknown event type {kind}")));
        };
        let delta = self.cursor.number(name)?;
        self.time = self
            .time
            .checked_add(delta)
            .ok_or_else(|| Error::broken(offset, format!("the time of {name} does not fit into 64 bits")))?;
        let mut args = [0; MAX_ARGS];
        for arg in &mut args[..count] {
            *arg = self.cursor.number(name)?;
        }
        Ok(Some(Event { kind, offset, time: self.time, args }))
    }
}
