//! Snapshots that the recorder makes by itself: when, how many, and where they go.
//!
//! Each is made on a thread of its own, because looking up function names needs a large stack and may take a
//! second. What caused it goes on meanwhile, unless the process is about to end.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Wanted, lock, snapshot};
use crate::sched::block::marked_call::blocking;
use crate::sys::stderr;
use crate::trace::session::Summary;

/// Why the flight recorder made a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotCause {
    /// A goroutine is stalled: see [`Config::stall_after`](crate::runtime::Config::stall_after).
    Stall,
    /// All goroutines are asleep: see [`OnDeadlock`](crate::runtime::OnDeadlock).
    Deadlock,
    /// A goroutine was runnable for this long before it ran, which is longer than
    /// [`latency_limit`](super::FlightRecorderConfig::latency_limit).
    Latency(Duration),
    /// The program called [`trace::snapshot`](super::snapshot), with this text.
    Program(String),
}

impl fmt::Display for SnapshotCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotCause::Stall => f.write_str("stall"),
            SnapshotCause::Deadlock => f.write_str("deadlock"),
            SnapshotCause::Latency(latency) => write!(f, "latency of {latency:?}"),
            SnapshotCause::Program(text) => f.write_str(text),
        }
    }
}

impl SnapshotCause {
    /// The cause as a part of a file's name.
    fn in_file_name(&self) -> String {
        let text = match self {
            SnapshotCause::Latency(_) => "latency".to_owned(),
            other => other.to_string(),
        };
        text.chars().take(40).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
    }
}

/// What the flight recorder made by itself.
#[derive(Clone, Debug)]
pub struct Snapshot {
    cause: SnapshotCause,
    trace: Vec<u8>,
    summary: Summary,
}

impl Snapshot {
    /// Why it was made.
    pub fn cause(&self) -> &SnapshotCause {
        &self.cause
    }

    /// The trace: the bytes of a file for `go tool trace` or `gort trace`.
    pub fn trace(&self) -> &[u8] {
        &self.trace
    }

    /// What the trace says about itself.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }
}

/// How many were made, and when.
#[derive(Default)]
pub(super) struct Made {
    /// How many were begun, and how many of these are made or being made: those that failed do not count
    /// against [`most_snapshots`](super::FlightRecorderConfig::most_snapshots).
    begun: usize,
    count: usize,
    /// When the last one was begun, whatever became of it: attempts cost time, too.
    last: Option<Instant>,
    /// An error was reported.
    failed: bool,
}

fn lock_made(made: &Mutex<Made>) -> MutexGuard<'_, Made> {
    made.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A snapshot that counts only if it gets somewhere.
struct Attempt {
    wanted: Wanted,
    number: usize,
    has_arrived: bool,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.has_arrived {
            lock_made(&self.wanted.made).count -= 1;
        }
    }
}

/// Begins a snapshot, if the program wants some and not too many were made. Returns the thread that makes it,
/// which returns whether it is where the program wanted it.
pub(super) fn begin(wanted: &Wanted, cause: SnapshotCause) -> Option<JoinHandle<bool>> {
    let mut attempt = attempt(wanted)?;
    let make = move || match attempt.make(cause) {
        Ok(made) => made,
        Err(error) => {
            report(&attempt.wanted.made, &error);
            false
        }
    };
    match std::thread::Builder::new().name("gort-snapshot".into()).stack_size(super::STACK).spawn(make) {
        Ok(thread) => Some(thread),
        Err(error) => {
            report(&wanted.made, &error);
            None
        }
    }
}

fn attempt(wanted: &Wanted) -> Option<Attempt> {
    let config = &wanted.config;
    if config.directory.is_none() && config.on_snapshot.is_none() {
        return None;
    }
    let mut made = lock_made(&wanted.made);
    if made.count >= config.most_snapshots || made.last.is_some_and(|last| last.elapsed() < config.pause) {
        return None;
    }
    made.begun += 1;
    made.count += 1;
    made.last = Some(Instant::now());
    Some(Attempt { wanted: wanted.clone(), number: made.begun, has_arrived: false })
}

/// Reports the first error.
fn report(made: &Mutex<Made>, error: &io::Error) {
    let mut made = lock_made(made);
    if !std::mem::replace(&mut made.failed, true) {
        let rest = "further errors are not reported";
        stderr::write(&format!("gort: flight recorder: no snapshot: {error} ({rest})\n"));
    }
}

impl Attempt {
    /// Makes the snapshot. Returns whether there is one: not if the recorder was stopped meanwhile.
    fn make(&mut self, cause: SnapshotCause) -> io::Result<bool> {
        let config = &self.wanted.config;
        let taken = match snapshot::take() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            taken => taken?,
        };
        let (trace, summary) = taken.into_trace();
        let snapshot = Snapshot { cause, trace, summary };
        let written = config.directory.as_deref().map(|directory| write(&snapshot, self.number, directory));
        // One that has come to one of two places is one that was made, also if the call panics.
        self.has_arrived = config.on_snapshot.is_some() || matches!(written, Some(Ok(_)));
        if let Some(call) = &config.on_snapshot {
            call(&snapshot);
        }
        let Some(written) = written else { return Ok(true) };
        let path = written?;
        let cause = snapshot.cause.to_string();
        stderr::write(&format!("gort: flight recorder: {}: see {}\n", cause.escape_debug(), path.display()));
        Ok(true)
    }
}

/// Writes a file under a name that no other file has. It has its name only when it is complete.
fn write(snapshot: &Snapshot, number: usize, directory: &Path) -> io::Result<PathBuf> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let cause = snapshot.cause.in_file_name();
    let name = format!("gort-flight-{seconds}-{}-{number}-{cause}.trace", std::process::id());
    let (path, part) = (directory.join(&name), directory.join(format!(".{name}.part")));
    let explain = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&part).map_err(explain)?;
    let written = file.write_all(&snapshot.trace).and_then(|()| fs::rename(&part, &path));
    if written.is_err() {
        let _there_is_nothing_more_to_do = fs::remove_file(&part);
    }
    written.map_err(explain)?;
    Ok(path)
}

fn begin_now(cause: SnapshotCause) -> Option<JoinHandle<bool>> {
    let wanted = lock().as_ref()?.wanted.clone();
    begin(&wanted, cause)
}

/// Begins a snapshot because of `cause`; the caller does not wait for it.
pub(crate) fn on(cause: SnapshotCause) {
    drop(begin_now(cause));
}

/// As [`on`], and returns when the snapshot is made: the process may be about to end. Returns whether one was
/// made.
pub(crate) fn on_and_wait(cause: SnapshotCause) -> bool {
    begin_now(cause).is_some_and(|thread| blocking(|| thread.join()).unwrap_or(false))
}
