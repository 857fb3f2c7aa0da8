//! What happened in a trace: the states of goroutines over time, tasks, regions, logs, samples.
//!
//! Times are nanoseconds since the beginning of the trace. Goroutines, Ps and Ms are named by their indices
//! in the lists of the [`Trace`]; [`NONE`] means "none".

mod annotations;
mod build;

use crate::batch;
use crate::error::Error;
use crate::generation::Generation;
use crate::order::{self, State as OrderState};
use crate::tables::{StackId, Stacks, StringId, Strings};
use crate::wire::Cursor;
use build::Builder;

/// No goroutine, no P, no M.
pub const NONE: u32 = u32::MAX;

/// The largest file that can be read: indices have 32 bits.
const MAX_FILE: usize = u32::MAX as usize;

/// The state of a goroutine.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum State {
    /// It could run, and waits for a P.
    Runnable,
    /// It runs on a P.
    Running,
    /// It is in a system call or another blocking call, with or without a P.
    Syscall,
    /// It waits for something.
    Waiting,
}

/// How a goroutine came into a state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// It was in this state when the trace began.
    Before,
    /// Another goroutine has created it.
    Created,
    /// Somebody has ended its wait.
    Unblocked,
    /// It yielded or was preempted; the reason says which.
    Stopped,
    /// It has come back from a call without a P.
    Returned,
    /// A P runs it, or it went into a call, or it began to wait.
    Itself,
    /// It is in a call, and its P was taken.
    LostProc,
}

/// One state of a goroutine, from when to when.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// When the state began.
    pub start: u64,
    /// When it ended: when the next state began, or the trace ended.
    pub end: u64,
    /// The goroutine.
    pub g: u32,
    /// The P on which it runs, or which it holds while it is in a call.
    pub p: u32,
    /// The M on which it runs or is in a call.
    pub m: u32,
    /// Who created or unblocked it, if it is runnable.
    pub by: u32,
    /// Why it waits or was stopped.
    pub reason: StringId,
    /// Where it went into a call, began to wait or was stopped; or where `by` has created or unblocked it.
    pub stack: StackId,
    /// The state.
    pub state: State,
    /// How it came into the state.
    pub cause: Cause,
}

impl Span {
    /// How long it lasted, in nanoseconds.
    pub fn length(&self) -> u64 {
        self.end - self.start
    }
}

/// A goroutine.
#[derive(Clone, Copy, Debug)]
pub struct Goroutine {
    /// Its number.
    pub id: u64,
    /// Its name: a label, if it has one.
    pub label: StringId,
    /// The function that it began with, or the outermost one that a stack of it shows.
    pub function: StringId,
    /// Who created it.
    pub creator: u32,
    /// Where it was created.
    pub create_stack: StackId,
    /// When it was first seen.
    pub first: u64,
    /// Whether it was created during the trace.
    pub created: bool,
    /// When it ended; `None` if it was alive at the end of the trace.
    pub ended: Option<u64>,
}

/// A P.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proc {
    /// Its number.
    pub id: u64,
    /// How long an M had it, in nanoseconds.
    pub owned: u64,
    /// How often an M has started it.
    pub starts: u64,
    /// How often it was taken from an M in a call.
    pub steals: u64,
    owned_since: Option<u64>,
}

/// A task.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Its number.
    pub id: u64,
    /// The task of which it is a part; 0 if there is none.
    pub parent: u64,
    /// Its name.
    pub name: StringId,
    /// The goroutine that began it.
    pub g: u32,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: Option<u64>,
}

/// A region of a goroutine.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The number of its task; 0 if there is none.
    pub task: u64,
    /// Its name.
    pub name: StringId,
    /// The goroutine.
    pub g: u32,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: Option<u64>,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// When it was written.
    pub time: u64,
    /// The goroutine that wrote it.
    pub g: u32,
    /// The number of its task; 0 if there is none.
    pub task: u64,
    /// The category.
    pub key: StringId,
    /// The message.
    pub value: StringId,
}

/// A time in which the whole runtime did something: collected garbage, or had stopped the world.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// What it did: "GC", or the reason for stopping the world.
    pub name: StringId,
    /// Whether the world was stopped.
    pub stopped: bool,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// A sample of the CPU profiler.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it was taken.
    pub time: u64,
    /// The goroutine that ran.
    pub g: u32,
    /// Its P.
    pub p: u32,
    /// Its M.
    pub m: u32,
    /// Where it was.
    pub stack: StackId,
}

/// A generation.
#[derive(Clone, Copy, Debug)]
pub struct GenerationInfo {
    /// Its number.
    pub number: u64,
    /// The events in it.
    pub events: u64,
    /// Its size in the file.
    pub bytes: u64,
    /// The time of its first event.
    pub start: u64,
}

/// A trace.
#[derive(Debug)]
pub struct Trace<'a> {
    /// The strings.
    pub strings: Strings<'a>,
    /// The stacks.
    pub stacks: Stacks,
    /// The complete generations.
    pub generations: Vec<GenerationInfo>,
    /// The goroutines, in the order in which they appear.
    pub goroutines: Vec<Goroutine>,
    /// The Ps, in the order in which they appear.
    pub procs: Vec<Proc>,
    /// How many Ms appear.
    pub threads: usize,
    /// The states of all goroutines, in the order in which they ended.
    pub spans: Vec<Span>,
    /// The first of the spans that only the end of the trace has ended; the later ones are such, too.
    pub unfinished: usize,
    /// The tasks, in the order in which they began.
    pub tasks: Vec<Task>,
    /// The regions, in the order in which they began.
    pub regions: Vec<Region>,
    /// The messages.
    pub logs: Vec<Log>,
    /// Garbage collections and stopped worlds.
    pub ranges: Vec<Range>,
    /// The samples of the CPU profiler.
    pub samples: Vec<Sample>,
    /// The times at which GOMAXPROCS was told, and its values.
    pub max_procs: Vec<(u64, u64)>,
    /// The times at which the size of the heap was told, and its values.
    pub heap: Vec<(u64, u64)>,
    /// When the trace ended.
    pub end: u64,
    /// Nanoseconds since 1970 when it began.
    pub wall: i128,
    /// What is wrong with the file, if something is. Everything before that is in the trace.
    pub damage: Option<Error>,
}

impl<'a> Trace<'a> {
    /// Reads a file. It is an error if no generation can be read at all.
    pub fn read(file: &'a [u8]) -> Result<Trace<'a>, Error> {
        if file.len() > MAX_FILE {
            return Err(Error::broken(MAX_FILE, "files of more than 4 GiB cannot be read"));
        }
        let mut cursor = Cursor::new(file, batch::header(file)?, usize::MAX);
        let mut builder = Builder::new();
        let mut state = OrderState::default();
        let (mut strings, mut stacks) = (Strings::new(), Stacks::new());
        let damage = loop {
            let begin = cursor.at();
            let generation = match Generation::read(file, &mut cursor, &mut strings, &mut stacks) {
                Ok(Some(generation)) => generation,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            let last = builder.trace.generations.last().map_or(0, |info| info.number);
            if generation.number <= last {
                let number = generation.number;
                break Some(Error::broken(begin, format!("generation {number} follows generation {last}")));
            }
            builder.begin(&generation, (cursor.at() - begin) as u64, &stacks);
            if let Err(error) = order::generation(&mut state, file, &generation, &mut builder) {
                break Some(error);
            }
        };
        match damage {
            Some(error) if builder.trace.generations.is_empty() => Err(error),
            None if builder.trace.generations.is_empty() => {
                Err(Error::truncated(cursor.at(), "the file has no generation"))
            }
            damage => Ok(builder.finish(&state, strings, stacks, damage)),
        }
    }

    /// The name of a goroutine: its label, or the function that it began with.
    pub fn goroutine_name(&self, index: u32) -> &str {
        let Some(goroutine) = self.goroutines.get(index as usize) else { return "" };
        let id = if goroutine.label != 0 { goroutine.label } else { goroutine.function };
        self.strings.get(id)
    }

    /// The number of a goroutine, if `index` is one's index.
    pub fn goroutine_id(&self, index: u32) -> Option<u64> {
        self.goroutines.get(index as usize).map(|goroutine| goroutine.id)
    }
}
