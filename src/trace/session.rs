//! A trace that is being made: the thread that reads the event logs and writes the trace.
//!
//! It wakes up every [`ROUND`], reads all logs, and hands the events to the model in the order of their
//! times ([`Merge`]). Every [`GENERATION`] it writes a generation. If it was too slow (because of the
//! writer), and events were lost, it ends the generation, drops all that has come since, and counts that as
//! a dropped generation.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::generation::HEADER;
use super::intake::{Feed, MOST_REREADS, intake};
use super::merge::Merge;
use super::start_state::{self, Seen};
use crate::base::note::Note;
use crate::sched::block::marked_call::blocking;
use crate::sched::machine::SCHED;
use crate::sys::clock::nanotime;

/// The pause between two looks at the logs.
const ROUND: Duration = Duration::from_millis(10);
/// The length of a generation (ns).
const GENERATION: u64 = 1_000_000_000;
/// A generation ends earlier when its events need this many bytes.
pub(super) const MOST_BYTES: usize = 16 << 20;
/// Events of the first moments (ns) are collected before the first one is written: they say in which state
/// everything was.
const FIRST_MOMENTS: u64 = 50_000_000;

/// What a finished trace says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// How many events were written.
    pub events: u64,
    /// How many generations were written. A generation takes about a second.
    pub generations: u64,
    /// How many times events were dropped because the writer, or the machine, was too slow.
    pub dropped_generations: u64,
    /// How many steps were filled in because the events that led to others were missing.
    pub repairs: u64,
    /// The first of these steps, in words: they belong in a report, because each is a mistake of gort.
    pub repaired: Vec<String>,
}

/// The trace that is being made.
static STATE: Mutex<State> = Mutex::new(State::None);

enum State {
    None,
    /// A thread begins a trace.
    Starting,
    Running(Running),
    /// A thread waits for the end of the trace. Until then no other can begin.
    Stopping,
}

struct Running {
    thread: JoinHandle<io::Result<Summary>>,
    control: Arc<Control>,
}

/// How `stop` reaches the thread of the trace.
struct Control {
    /// Set to end the trace.
    stop: AtomicBool,
    /// Set when the thread has ended, by itself if the writer failed.
    ended: AtomicBool,
    /// Wakes the thread.
    wake: Note,
}

/// Tells a trace from those before and after it.
pub(crate) struct Ticket(Arc<Control>);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a trace is being made.
pub(super) fn is_running() -> bool {
    matches!(&*state(), State::Running(running) if !running.control.ended.load(Ordering::Relaxed))
}

/// Begins a trace. The writer is called without locks, here for the header and then on the trace's own
/// thread.
///
/// A writer that is code of the program may wake goroutines, so while such a trace is made no deadlock is
/// reported. With `wakes_nobody` the caller promises that this writer does not.
pub(super) fn start(mut writer: Box<dyn Write + Send>, wakes_nobody: bool) -> io::Result<Ticket> {
    let busy = |what| Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    {
        let mut state = state();
        match &*state {
            State::None => *state = State::Starting,
            State::Stopping => {
                return busy(
                    "a trace is being ended: begin the next one after gort::trace::stop has returned",
                );
            }
            State::Starting | State::Running(_) => {
                return busy("a trace is being made already: call gort::trace::stop first");
            }
        }
    }
    /// Nothing was started, for whatever reason.
    struct NotStarted;
    impl Drop for NotStarted {
        fn drop(&mut self) {
            *state() = State::None;
        }
    }
    let not_started = NotStarted;
    writer.write_all(HEADER)?;
    let control =
        Arc::new(Control { stop: AtomicBool::new(false), ended: AtomicBool::new(false), wake: Note::new() });
    // Those that came after the end of the last trace.
    #[cfg(feature = "debug")]
    super::cpu_samples::take();
    blocking(|| intake().begin_feed())?;
    let guard = EndFeed;
    // What the caller does next belongs to the trace, however late the thread begins.
    let (began, earlier) = (nanotime(), blocking(Seen::now));
    let own = Arc::clone(&control);
    let run = move || {
        let _thread = wakes_nobody.then(|| SCHED.platform.tracer.begin());
        let _guard = guard;
        Collector::new(writer, &own, began, earlier).run()
    };
    let thread = std::thread::Builder::new().name("gort-trace".into()).spawn(run)?;
    std::mem::forget(not_started);
    let ticket = Ticket(Arc::clone(&control));
    *state() = State::Running(Running { thread, control });
    Ok(ticket)
}

/// Ends the trace, if it is that of the ticket, or whichever it is. `None`: there was none.
pub(super) fn stop(ticket: Option<&Ticket>) -> Option<io::Result<Summary>> {
    let is_meant = |running: &Running| ticket.is_none_or(|ticket| Arc::ptr_eq(&ticket.0, &running.control));
    let Running { thread, control } = {
        let mut state = state();
        match std::mem::replace(&mut *state, State::Stopping) {
            State::Running(running) if is_meant(&running) => running,
            other => {
                *state = other;
                return None;
            }
        }
    };
    control.stop.store(true, Ordering::Release);
    control.wake.set();
    let result = blocking(|| thread.join());
    *state() = State::None;
    Some(result.unwrap_or_else(|_| Err(io::Error::other("the writer of the trace panicked"))))
}

/// Ends the feed, also if the writer panics.
struct EndFeed;

impl Drop for EndFeed {
    fn drop(&mut self) {
        blocking(|| intake().end_feed());
    }
}

struct Collector<'a> {
    control: &'a Control,
    writer: Box<dyn Write + Send>,
    feed: Feed,
    merge: Merge,
    symbols: super::symbols::Symbols,
    summary: Summary,
    /// When the trace began, or went on after a gap (ns). Earlier events do not count: the logs are not read
    /// at one moment, so that what was forgotten before ends at different times.
    began: u64,
    /// What the scheduler said at `began`.
    earlier: Seen,
    /// Whether the model has the state of `began`.
    knows_state: bool,
    /// When the current generation began (ns).
    generation_began: u64,
}

impl Drop for Collector<'_> {
    fn drop(&mut self) {
        self.control.ended.store(true, Ordering::Relaxed);
    }
}

impl<'a> Collector<'a> {
    fn new(writer: Box<dyn Write + Send>, control: &'a Control, began: u64, earlier: Seen) -> Collector<'a> {
        Collector {
            control,
            writer,
            feed: Feed::default(),
            merge: Merge::new(began),
            symbols: super::symbols::Symbols::default(),
            summary: Summary::default(),
            began,
            earlier,
            knows_state: false,
            generation_began: began,
        }
    }

    fn run(mut self) -> io::Result<Summary> {
        self.collect()?;
        self.summary.repairs = self.merge.model.repairs;
        self.summary.repaired = std::mem::take(&mut self.merge.model.repaired);
        Ok(self.summary.clone())
    }

    fn collect(&mut self) -> io::Result<()> {
        loop {
            let stopping = self.control.stop.load(Ordering::Acquire);
            let due = stopping || nanotime() - self.began >= FIRST_MOMENTS;
            let seen = (due && !self.knows_state).then(Seen::now);
            let (horizon, last, behind) = self.read(stopping);
            if self.feed.lost {
                // With events missing, what was read since the last round is of no use.
                self.drop_what_is_left()?;
            } else if let Some(seen) = seen {
                self.merge.inbox.forget_before(self.began);
                let first = self.merge.inbox.heads().map(|(time, _)| time).min();
                let world = start_state::world(&self.earlier, &seen, &self.merge.inbox, horizon);
                self.merge.model.begin_with(world, first.unwrap_or(horizon));
                self.earlier = Seen::default();
                self.knows_state = true;
            }
            if self.knows_state {
                while self.merge.process(last, MOST_BYTES) {
                    self.write_generation()?;
                }
                if stopping || horizon - self.generation_began >= GENERATION {
                    self.write_generation()?;
                    self.generation_began = horizon;
                }
            }
            if stopping {
                return self.writer.flush();
            }
            if !behind {
                self.control.wake.wait_until(Some(std::time::Instant::now() + ROUND));
            }
        }
    }

    /// Reads all logs. Returns the horizon, the time up to which events may be used (which is later if there
    /// will be no more), and whether another read should follow at once.
    fn read(&mut self, stopping: bool) -> (u64, u64, bool) {
        let mut intake = intake();
        let (horizon, last) = intake.read_to_horizon(stopping);
        intake.swap_feed(&mut self.feed);
        let behind = intake.is_behind();
        drop(intake);
        for (log, record) in self.feed.records() {
            self.merge.inbox.add(log, record, horizon);
        }
        (horizon, last, behind)
    }

    /// Events were lost: forgets those that were read since, and asks for the state again.
    fn drop_what_is_left(&mut self) -> io::Result<()> {
        if self.knows_state {
            self.write_generation()?;
        }
        // More may have been lost meanwhile, which belongs to the same gap. If it goes on, the next round
        // drops what it has read, too.
        self.merge.inbox.clear();
        let _is_over = (0..MOST_REREADS).any(|_| !intake().read_lossy(&mut self.feed));
        // A gap may take many rounds.
        if self.knows_state || self.summary.dropped_generations == 0 {
            self.summary.dropped_generations += 1;
        }
        self.knows_state = false;
        self.began = nanotime();
        self.earlier = Seen::now();
        self.generation_began = self.began;
        Ok(())
    }

    fn write_generation(&mut self) -> io::Result<()> {
        #[cfg(feature = "debug")]
        self.merge.model.generation.add_cpu_samples(super::cpu_samples::take());
        let generation = self.merge.model.next_generation();
        self.summary.events += generation.events;
        self.summary.generations += 1;
        self.writer.write_all(&generation.finish(&mut self.symbols))
    }
}
