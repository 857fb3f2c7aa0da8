//! The one reader of the event logs. It reads for two: the trace that is being made, and the window of the
//! flight recorder. Each may begin and end while the other goes on.
//!
//! Any thread may call [`Intake::read`], which takes a lock and gives both what it has read. So the tracer
//! misses nothing that the recorder's thread reads, nor the other way round. The tracer takes its part, the
//! feed, out and works on it without the lock. If the tracer is slow, its feed fills up; then the tracer has
//! lost events, and the window has not.
//!
//! Logs are written while one of the two is on. The one that begins later has missed events whose
//! consequences it will see; its first state comes from `start_state.rs`. When one ends and the other goes
//! on, the last events that it read may lack their causes, which are in logs that were read before them: it
//! uses events only up to a time after which all logs were read once more (the horizon). When both are off,
//! no log has an event without its cause (V3).

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::flight::window::Window;
use crate::sched::event::reader::Reader;
use crate::sched::event::record::Record;
use crate::sched::event::{EVENTS, FLIGHT, TRACER};
use crate::sys::clock::nanotime;
use crate::sys::membarrier;

/// After a loss the logs are read again until nothing was lost meanwhile, at most this often: the reader must
/// not hold the lock for as long as the program is faster than it.
pub(super) const MOST_REREADS: usize = 4;
/// The most records in the feed: as many as the memory of the logs holds.
const MOST_FED: usize = 4 << 20;

pub(super) struct Intake {
    reader: Reader,
    feed: Option<Feed>,
    pub(super) window: Option<Window>,
}

/// What the tracer has not taken yet.
#[derive(Default)]
pub(super) struct Feed {
    /// Runs of records, each of one log: the number of the log, and how many.
    runs: Vec<(u32, usize)>,
    records: Vec<Record>,
    /// Records were lost.
    pub(super) lost: bool,
}

impl Feed {
    fn add(&mut self, log: u32, records: &[Record]) {
        if self.records.len() + records.len() > MOST_FED {
            self.lose();
        }
        self.runs.push((log, records.len()));
        self.records.extend_from_slice(records);
    }

    fn lose(&mut self) {
        self.clear();
        self.lost = true;
    }

    /// Empties it, and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.records.clear();
        self.lost = false;
    }

    /// The records, in the order in which they were read, with the numbers of their logs.
    pub(super) fn records(&self) -> impl Iterator<Item = (u32, Record)> {
        let mut rest = &self.records[..];
        self.runs.iter().flat_map(move |&(log, count)| {
            let (run, others) = rest.split_at(count);
            rest = others;
            run.iter().map(move |&record| (log, record))
        })
    }
}

static INTAKE: Mutex<Intake> = Mutex::new(Intake { reader: Reader::new(), feed: None, window: None });

/// The intake. Its holder neither parks nor runs code of the program.
pub(super) fn intake() -> MutexGuard<'static, Intake> {
    INTAKE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Intake {
    /// Reads all logs. Returns whether there was anything.
    pub(super) fn read(&mut self) -> bool {
        let now = nanotime();
        let Intake { reader, feed, window } = self;
        let mut any = false;
        let whole = reader.read(&EVENTS.logs, |log, records| {
            any = true;
            if let Some(feed) = feed {
                feed.add(log, records);
            }
            if let Some(window) = window {
                window.add(log, records, now);
            }
        });
        if !whole {
            // While the memory was full, losses went on. Most are over when the memory is free again, so that
            // they count as one. If they are not, the next read will find those, too.
            let _are_over = (0..MOST_REREADS).any(|_| reader.read(&EVENTS.logs, |_, _| ()));
            if let Some(feed) = feed {
                feed.lose();
            }
            if let Some(window) = window {
                window.lose(nanotime());
            }
        }
        if let Some(window) = window {
            window.trim(now);
        }
        any || !whole
    }

    /// Reads all logs for the last time before `stopping`, or for one time more. Returns the horizon: all
    /// events before it were read. And the time up to which the tracer may use events: the horizon, or the
    /// end of time if no more can come.
    pub(super) fn read_to_horizon(&mut self, stopping: bool) -> (u64, u64) {
        let ends = stopping && self.window.is_none();
        if ends {
            EVENTS.turn_off(TRACER);
            membarrier::all_threads();
        }
        self.read();
        let horizon = nanotime();
        self.read();
        (horizon, if ends { u64::MAX } else { horizon })
    }

    /// Turns the logs on for `whom`. What was written before is forgotten, or goes to the other one.
    fn turn_on(&mut self, whom: u8) -> io::Result<()> {
        EVENTS.turn_on(whom)?;
        // From here on every thread sees that events are to be written.
        membarrier::all_threads();
        match (&self.feed, &self.window) {
            (None, None) => self.reader.skip(&EVENTS.logs),
            _ => drop(self.read()),
        }
        Ok(())
    }

    /// Turns the logs off for `whom`, who has gone. What nobody will read is forgotten.
    fn turn_off(&mut self, whom: u8) {
        EVENTS.turn_off(whom);
        if self.feed.is_none() && self.window.is_none() {
            membarrier::all_threads();
            // What was written since is of no use; its memory is.
            self.reader.skip(&EVENTS.logs);
        }
    }

    /// Begins to collect for a trace.
    pub(super) fn begin_feed(&mut self) -> io::Result<()> {
        self.turn_on(TRACER)?;
        self.feed = Some(Feed::default());
        Ok(())
    }

    /// Gives the tracer what was read for it, and takes an empty feed.
    pub(super) fn swap_feed(&mut self, with: &mut Feed) {
        with.clear();
        if let Some(feed) = &mut self.feed {
            std::mem::swap(feed, with);
        }
    }

    /// Reads, and forgets what was read for the tracer. Returns whether events were lost.
    pub(super) fn read_lossy(&mut self, feed: &mut Feed) -> bool {
        self.read();
        self.swap_feed(feed);
        std::mem::take(feed).lost
    }

    /// Ends the collecting for the trace.
    pub(super) fn end_feed(&mut self) {
        self.feed = None;
        self.turn_off(TRACER);
    }

    /// Begins to keep a window.
    pub(super) fn begin_window(&mut self, window: impl FnOnce(u64) -> Window) -> io::Result<()> {
        self.turn_on(FLIGHT)?;
        self.window = Some(window(nanotime()));
        Ok(())
    }

    /// Gives the window up.
    pub(super) fn end_window(&mut self) {
        self.window = None;
        self.turn_off(FLIGHT);
    }

    /// Whether another read should follow at once.
    pub(super) fn is_behind(&self) -> bool {
        Reader::is_behind(&EVENTS.logs)
    }
}
