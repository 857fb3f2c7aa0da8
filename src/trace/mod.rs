//! Execution traces: what every goroutine, processor and thread did, and when, in the format of Go 1.26. Go's
//! own tools read them (`go tool trace FILE`), and so does `gort trace FILE`.
//!
//! ```
//! # let file = std::env::temp_dir().join(format!("gort-doc-{}.trace", std::process::id()));
//! gort::trace::start(std::fs::File::create(&file)?)?;
//! gort::run(|| {
//!     let task = gort::trace::task("request");
//!     {
//!         let _region = task.region("parse");
//!         task.log("size", "42");
//!     }
//!     gort::spawn(|| gort::sleep(std::time::Duration::from_millis(1))).join().unwrap();
//! });
//! let summary = gort::trace::stop()?;
//! assert!(summary.events > 0);
//! # assert!(std::fs::metadata(&file)?.len() > 16);
//! # std::fs::remove_file(file)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A [`FlightRecorder`] keeps the last seconds in memory instead, and makes a trace of them when something
//! has gone wrong.
//!
//! With the environment variable `GORT_TRACE=FILE` a trace of the whole run is made, from the first use of
//! the runtime to the end of the process. In the name, `%p` stands for the id of the process and `%%` for
//! `%`. The program's children inherit the variable, so use `%p` if they use gort, too:
//! `GORT_TRACE=/tmp/%p.trace`. What the file had before is lost, unless another process writes its trace into
//! it: that one goes on, and this one says on standard error that it makes none. The trace is complete if the
//! process exits, also by a deadlock report or SIGQUIT; a signal that kills it, an abort and `_exit` cost the
//! last second.
//!
//! # What a trace shows
//!
//! - each goroutine: when it was made and where, when it ran, waited and for what (Go's words, so that
//!   `go tool trace -pprof=net|sync|syscall|sched` finds them), when it was runnable but did not run;
//! - each processor and thread: which goroutine ran on it, hand-offs, marked and unmarked blocking calls,
//!   preemption;
//! - with the feature `debug`, the samples of a CPU profile that is made at the same time (`gort::profile`);
//! - the program's own [`task`]s, [`region`]s and [`log`] messages.
//!
//! A goroutine is shown under its name or, if it has none, under its function. Waits have stacks, but not
//! each stack is walked, which would take longer than most waits: at most one per cent of the time goes to
//! that, and a wait whose stack was not walked shows the stack of an earlier one that was made at the same
//! place, waits for the same reason and has the same depth.
//!
//! # Cost
//!
//! While no trace is made and no flight recorder is on: one predictable branch for each event. While one is:
//! some tens of nanoseconds for each event (`docs/decisions/056-traces.md` has figures), memory for events
//! that were not written yet, and a thread that writes them. That memory is some MiB in most programs, and at
//! most about 300 MiB, when the writer falls behind. If it is too slow, events are dropped, and
//! [`Summary::dropped_generations`] says so; the trace stays readable.

mod annotate;
#[cfg(feature = "debug")]
pub(crate) mod cpu_samples;
mod file;
mod flight;
mod generation;
mod inbox;
mod intake;
mod merge;
mod model;
mod repair;
mod session;
mod start_state;
mod steps;
mod symbols;
mod world;

use std::any::TypeId;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::base::note::Note;
use crate::sched::boot;
use crate::sys::env::Settings;
use crate::sys::{process, stderr};

pub use annotate::{Region, Task, log, region, task};
pub(crate) use flight::automatic;
#[cfg(feature = "debug")]
pub(crate) use flight::trace_of_active;
pub use flight::{FlightRecorder, FlightRecorderConfig, Snapshot, SnapshotCause, snapshot};
pub use session::Summary;

/// Begins a trace, which is written to `writer` about once a second, by a thread of its own.
///
/// # Errors
/// If a trace is being made already, if the runtime has no memory for it, or if the writer fails at once.
pub fn start(writer: impl Write + Send + 'static) -> io::Result<()> {
    fn is_file<W: 'static>(_: &W) -> bool {
        TypeId::of::<W>() == TypeId::of::<File>()
    }
    boot::ensure();
    let wakes_nobody = is_file(&writer);
    session::start(Box::new(writer), wakes_nobody).map(drop)
}

/// As [`start`], for an observer's writer, which wakes nobody.
#[cfg(feature = "debug")]
pub(crate) fn start_for_observer(writer: impl Write + Send + 'static) -> io::Result<session::Ticket> {
    boot::ensure();
    session::start(Box::new(writer), true)
}

/// Ends the trace: returns when all of it is written.
///
/// # Errors
/// If no trace is being made, or if the writer failed, at any time.
pub fn stop() -> io::Result<Summary> {
    session::stop(None).unwrap_or_else(|| {
        Err(io::Error::new(io::ErrorKind::NotFound, "no trace is being made: call gort::trace::start first"))
    })
}

/// As [`stop`], for an observer: ends only the trace that it began.
#[cfg(feature = "debug")]
pub(crate) fn stop_for_observer(ticket: &session::Ticket) -> io::Result<Summary> {
    session::stop(Some(ticket)).unwrap_or_else(|| {
        Err(io::Error::new(io::ErrorKind::NotFound, "the program has ended the trace before"))
    })
}

/// Whether a trace is being made.
///
/// ```
/// assert!(!gort::trace::is_enabled());
/// ```
pub fn is_enabled() -> bool {
    session::is_running()
}

/// Called at boot: begins a trace if the environment asks for one.
pub(crate) fn start_at_boot(settings: &Settings) {
    let Some(name) = &settings.trace else { return };
    let name = file::name_for(name, std::process::id());
    match file::open(&name).and_then(|file| session::start(Box::new(file), true)) {
        Ok(_) => {
            WHOLE_RUN.store(true, Ordering::Relaxed);
            process::at_exit(end_at_exit);
        }
        Err(error) => {
            stderr::write(&format!("gort: GORT_TRACE={}: no trace is made: {error}\n", name.display()));
        }
    }
}

/// The environment has asked for a trace, which began.
static WHOLE_RUN: AtomicBool = AtomicBool::new(false);
/// Ending that trace takes longer than this only if something is wrong: the disk does not answer, or the
/// thread that writes the trace is stuck.
const LONGEST_END: Duration = Duration::from_secs(10);

/// Called before the process ends without exit handlers: writes the rest of the trace that the environment
/// asked for, unless that takes too long.
pub(crate) fn end_without_exit_handlers() {
    static ENDED: Note = Note::new();
    if !WHOLE_RUN.load(Ordering::Relaxed) {
        return;
    }
    let ends = || {
        end_at_exit();
        ENDED.set();
    };
    let ended = std::thread::Builder::new().name("gort-trace-end".into()).spawn(ends).is_ok()
        && ENDED.wait_until(Some(Instant::now() + LONGEST_END));
    if !ended {
        stderr::write("gort: the trace is not complete: its end could not be written\n");
    }
}

/// Called when the process ends, and when a process ends that was forked from it. The trace belongs to the
/// first one, and so does the thread that writes it.
extern "C" fn end_at_exit() {
    if boot::is_forked() {
        return;
    }
    let problem = match std::panic::catch_unwind(|| session::stop(None)) {
        Ok(None | Some(Ok(_))) => return,
        Ok(Some(Err(error))) => error.to_string(),
        Err(_) => "the runtime could not wait for the thread that writes it".into(),
    };
    stderr::write(&format!("gort: the trace is not complete: {problem}\n"));
}
