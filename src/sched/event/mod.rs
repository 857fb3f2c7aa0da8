//! Event logs: what the scheduler does, written down for the tracer and the flight recorder (`trace/`) while
//! one of them is on.
//!
//! Each M has a [`Log`](log::Log), and all other threads share one ([`outside`]). A log holds facts only:
//! "goroutine 7 starts", "it waits for a channel". Their reader, `trace/intake.rs`, hands them to the tracer,
//! which merges them and makes a trace of them, and to the flight recorder. So the scheduler's side needs no
//! lock, no sequence numbers and no states, and costs one predictable branch while both are off ([`is_on`]).
//! The measuring of waits (`types/wait_times.rs`) and their profiles (`profile/waits.rs`) share that branch;
//! the code behind it checks which of these is on.
//!
//! - V1. Only the M's thread writes the M's log: inside the runtime (a section, or g0), or in the handler of
//!   our signal while its goroutine is outside. So no write interrupts another.
//! - V2. A record's first word is stored last, with Release, and is not 0. The reader takes records in order
//!   and stops at the first 0.
//! - V3. A step is written down before other threads can see it: a goroutine that waits before it can be
//!   readied, one that is readied before it is queued, a P that is given up before another M can have it. So
//!   a reader that has seen an event, and then reads all logs again, finds what led to it. (Taking a P from
//!   a marked call is written down right after, perhaps later than the end of that call; the model knows.)
//! - V4. A chunk of memory belongs to the pool, to one log, or to the reader. The reader copies a chunk's
//!   records as far as they are written, and gives it back when it has copied the last one: nobody keeps
//!   chunks.
//!
//! If the reader is too slow and the memory is used up, events are lost, counted, and the reader is told.

mod facts;
pub(crate) mod latency_watch;
pub(crate) mod log;
mod logs;
mod outside;
mod pool;
pub(crate) mod reader;
pub(crate) mod record;

use std::io;
use std::ops::Range;
use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use self::latency_watch::LatencyWatch;
use self::logs::Logs;
use self::outside::Outside;
use self::pool::Pool;
use self::record::{Kind, Record, TEXT_BYTES};
use crate::base::atomic::CachePadded;
use crate::base::note::Note as Wake;
use crate::sys::clock::nanotime;

/// The logs of the process.
pub(crate) static EVENTS: Events = Events {
    on: CachePadded::new(AtomicU8::new(0)),
    logs: Logs::new(CHUNKS),
    wake: Wake::new(),
    latency: LatencyWatch::new(),
};

pub(crate) struct Events {
    /// Who wants to know what the scheduler does: [`TRACER`], [`FLIGHT`], [`WAITS`], [`PROFILES`].
    on: CachePadded<AtomicU8>,
    pub(crate) logs: Logs,
    /// Wakes the flight recorder's thread: there is much to read. Others wake it by this, too.
    pub(crate) wake: Wake,
    pub(crate) latency: LatencyWatch,
}

/// Chunks in the pool: 64 MiB in all, of which only what is used costs memory.
const CHUNKS: usize = 8192;

// Loom's atomics cannot be made in constants, so this is not in the files that its models include.
impl Logs {
    /// Logs without memory; later with a pool of this many chunks.
    const fn new(chunks: usize) -> Logs {
        Logs {
            pool: Pool { chunks, memory: OnceLock::new(), first_free: AtomicUsize::new(0) },
            outside: Outside { ring: OnceLock::new(), tail: AtomicUsize::new(0), head: AtomicUsize::new(0) },
            lost: AtomicU64::new(0),
            fresh: AtomicU32::new(0),
        }
    }
}

impl Events {
    /// Begins to write logs for `whom`, [`TRACER`] or [`FLIGHT`]. The caller makes sure that all threads see
    /// it.
    pub(crate) fn turn_on(&self, whom: u8) -> io::Result<()> {
        self.logs.fill()?;
        self.on.fetch_or(whom, Ordering::SeqCst);
        Ok(())
    }

    /// Ends that. If the other one is off, too, no more logs are written.
    pub(crate) fn turn_off(&self, whom: u8) {
        self.on.fetch_and(!whom, Ordering::SeqCst);
    }

    /// There is much to read. The caller may be a signal handler.
    #[cold]
    fn wake_flight_recorder(&self) {
        if self.on.load(Ordering::Relaxed) & FLIGHT != 0 {
            self.wake.set();
        }
    }

    /// Begins or ends to measure waits (`types/wait_times.rs`). Returns whether they were measured before.
    pub(crate) fn record_waits(&self, yes: bool) -> bool {
        let before = match yes {
            true => self.on.fetch_or(WAITS, Ordering::Relaxed),
            false => self.on.fetch_and(!WAITS, Ordering::Relaxed),
        };
        before & WAITS != 0
    }

    /// Begins or ends, as `wanted` says, to profile waits (`profile/waits.rs`).
    #[cfg(feature = "debug")]
    pub(crate) fn profile_waits(&self, wanted: impl Fn() -> bool) {
        loop {
            let yes = wanted();
            match yes {
                true => self.on.fetch_or(PROFILES, Ordering::SeqCst),
                false => self.on.fetch_and(!PROFILES, Ordering::SeqCst),
            };
            // Another thread may have changed its mind.
            if wanted() == yes {
                return;
            }
        }
    }
}

/// The tracer wants logs.
pub(crate) const TRACER: u8 = 1;
/// Waits are measured.
const WAITS: u8 = 2;
/// Waits are profiled.
const PROFILES: u8 = 8;
/// The flight recorder wants logs.
pub(crate) const FLIGHT: u8 = 4;

/// Whether anybody wants to know what the scheduler does. It is the only question on hot paths.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    EVENTS.on.load(Ordering::Relaxed) != 0
}

/// Whether events are to be written.
#[inline]
pub(crate) fn is_traced() -> bool {
    EVENTS.on.load(Ordering::Relaxed) & (TRACER | FLIGHT) != 0
}

/// Whether waits are added up by reason.
#[inline]
pub(crate) fn records_waits() -> bool {
    EVENTS.on.load(Ordering::Relaxed) & WAITS != 0
}

/// Whether waits are profiled.
#[inline]
pub(crate) fn profiles_waits() -> bool {
    EVENTS.on.load(Ordering::Relaxed) & PROFILES != 0
}

/// Whether goroutines mark the time when they begin to wait.
#[inline]
pub(crate) fn measures_waits() -> bool {
    EVENTS.on.load(Ordering::Relaxed) & (WAITS | PROFILES) != 0
}

/// The longest text of an event (bytes); the rest is cut off. Go's format allows 1,024.
const MOST_TEXT: usize = 1000;
/// How a goroutine stops.
#[derive(Clone, Copy)]
pub(crate) enum Stop {
    /// It waits, for this reason (a `WaitReason`).
    Wait(u8),
    Yield,
    Preempt,
    End,
    /// It comes from a blocking call, and needs a P.
    NeedsP,
}

/// Calls its argument with the frames of the caller, innermost first, on a stack with these addresses.
pub(crate) type Sampler = fn(Range<usize>, &mut dyn FnMut(usize));

/// Where a goroutine is when it stops, or enters a call: how to walk its stack, where it was made (an
/// address), and how many bytes of its stack are in use.
pub(crate) struct Whereabouts {
    pub(crate) sampler: Sampler,
    pub(crate) stack: Range<usize>,
    pub(crate) site: usize,
    pub(crate) depth: usize,
}

impl Whereabouts {
    /// The depth as records have it, in units of 16 bytes.
    fn depth(&self) -> u64 {
        (self.depth >> 4) as u64 & 0xffff
    }

    /// The place in [`Log::sampled`](log::Log) of the path that led here, and a number that tells it from
    /// others.
    fn path(&self, kind: Kind, extra: u8) -> (usize, u16) {
        let path = (self.site as u64) << 24 ^ self.depth() << 16 ^ u64::from(extra) << 8 ^ kind as u64;
        let hash = path.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((hash >> 58) as usize, (hash >> 40) as u16 | 1)
    }
}

/// What ended a wait.
#[derive(Clone, Copy)]
pub(crate) enum Waker<'a> {
    /// The running goroutine, which is there.
    #[cfg_attr(not(feature = "debug"), expect(dead_code, reason = "profiles read it"))]
    Goroutine(&'a Whereabouts),
    /// A thread of the program.
    Thread,
    /// The runtime: a timer, the netpoller.
    Runtime,
}

/// A new goroutine.
pub(crate) struct New<'a> {
    pub(crate) id: u64,
    pub(crate) site: &'static Location<'static>,
    /// The type of its function, as a text.
    pub(crate) function: &'static str,
    pub(crate) name: Option<&'a str>,
}

impl New<'_> {
    fn records(&self, now: u64) -> impl Iterator<Item = Record> {
        let site = std::ptr::from_ref(self.site) as u64;
        let function = (self.function.len() as u64, self.function.as_ptr() as u64);
        [Record::new(Kind::Site, 0, 0, site), Record::new(Kind::Function, 0, function.0, function.1)]
            .into_iter()
            .chain(self.name.into_iter().flat_map(text))
            .chain(std::iter::once(Record::new(Kind::Create, 0, now, self.id)))
    }

    /// From a thread that is not an M. Returns the time.
    #[cold]
    pub(crate) fn made_outside(&self) -> u64 {
        let now = nanotime();
        let count = 3 + self.name.map_or(0, text_records);
        append_outside(count, self.records(now));
        now
    }
}

/// The records of a text, cut to the longest that is allowed.
fn text(text: &str) -> impl Iterator<Item = Record> {
    let bytes = &text.as_bytes()[..text.floor_char_boundary_at(MOST_TEXT)];
    bytes.chunks(TEXT_BYTES).map(Record::text).chain(std::iter::once(Record::new(Kind::TextEnd, 0, 0, 0)))
}

fn text_records(text: &str) -> usize {
    text.floor_char_boundary_at(MOST_TEXT).div_ceil(TEXT_BYTES) + 1
}

trait FloorCharBoundary {
    fn floor_char_boundary_at(&self, most: usize) -> usize;
}

impl FloorCharBoundary for str {
    fn floor_char_boundary_at(&self, most: usize) -> usize {
        (0..=most.min(self.len())).rev().find(|&index| self.is_char_boundary(index)).unwrap_or(0)
    }
}

fn append_outside(count: usize, records: impl Iterator<Item = Record>) {
    if is_traced() {
        EVENTS.logs.append_outside(count, records);
    }
}

fn one_outside(kind: Kind, second: u64) -> u64 {
    if !is_traced() {
        return 0;
    }
    let now = nanotime();
    append_outside(1, std::iter::once(Record::new(kind, 0, now, second)));
    now
}

/// The wait of a goroutine ended; the caller may be on any thread. Returns the time, or 0 if nothing is
/// traced.
#[cold]
pub(crate) fn unblocked_anywhere(g: u64) -> u64 {
    one_outside(Kind::Unblock, g)
}

/// A P was taken from the M in a marked call.
#[cold]
pub(crate) fn stolen(m: u32, p: u32) {
    one_outside(Kind::Steal, u64::from(m) << 32 | u64::from(p));
}

/// A P was taken from the M in an unmarked call.
#[cold]
pub(crate) fn detached(m: u32, p: u32) {
    one_outside(Kind::Detach, u64::from(m) << 32 | u64::from(p));
}

/// An annotation by the program.
pub(crate) struct Note<'a> {
    pub(crate) kind: Kind,
    /// Its task, or the new task; and the task around a new one.
    pub(crate) task: u64,
    pub(crate) parent: u64,
    pub(crate) texts: &'a [&'a str],
}
