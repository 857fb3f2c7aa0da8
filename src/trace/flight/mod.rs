//! The flight recorder: keeps the events of the last seconds in memory, and makes a trace of them on demand.
//!
//! While it is on, the scheduler writes its event logs as for a trace (`sched/event/`), and a thread copies
//! the raw records to the [`Window`](window::Window) and drops the oldest. The model, which makes a trace of
//! records, runs only for a [snapshot]. The thread sleeps until logs have begun a number of chunks, so it
//! wakes up in proportion to the number of events, and an idle process does not notice it.
//!
//! One recorder is on at a time, next to a trace (`trace/intake.rs`).

pub(crate) mod automatic;
mod config;
pub(super) mod memory;
mod snapshot;
pub(super) mod window;

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::automatic::Made;
use self::window::{Limits, Window};
use super::intake::intake;
use super::session::Summary;
use crate::sched::block::marked_call::blocking;
use crate::sched::boot;
use crate::sched::event::EVENTS;
use crate::sched::machine::SCHED;
use crate::sys::thread;

pub use automatic::{Snapshot, SnapshotCause};
pub use config::FlightRecorderConfig;

/// Size of the stack (bytes) of a thread that makes a snapshot: looking up function names needs a lot.
const STACK: usize = 4 << 20;
/// The pause between two looks at the logs while there are events; what is too old is dropped then.
const ROUND: Duration = Duration::from_secs(1);
/// The same while there are none.
const IDLE_ROUND: Duration = Duration::from_secs(3600);

/// Keeps the events of the last seconds, from which a trace can be made after something has happened. As Go's
/// `runtime/trace.FlightRecorder`.
///
/// It costs about as much as writing the events of a trace down, and nothing of what making the trace costs;
/// so a server can leave it on. `docs/decisions/057-flight-recorder.md` has the figures: 1.4 % of an echo
/// server's CPU time.
///
/// ```
/// use gort::trace::{FlightRecorder, FlightRecorderConfig};
///
/// let recorder = FlightRecorder::new(FlightRecorderConfig::new());
/// recorder.start()?;
/// gort::run(|| {
///     let slow = gort::spawn(|| gort::sleep(std::time::Duration::from_millis(5)));
///     slow.join().unwrap();
/// });
/// // Something took too long: what was going on?
/// let mut trace = Vec::new();
/// let summary = recorder.write_to(&mut trace)?;
/// assert!(summary.events > 0);
/// assert!(trace.starts_with(b"go 1.26 trace"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FlightRecorder {
    config: Arc<FlightRecorderConfig>,
}

/// The recorder that is on.
struct Active {
    wanted: Wanted,
    thread: JoinHandle<()>,
}

static ACTIVE: Mutex<Option<Active>> = Mutex::new(None);
/// Set to end the thread.
static STOP: AtomicBool = AtomicBool::new(false);

fn lock() -> MutexGuard<'static, Option<Active>> {
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What automatic snapshots need to know.
#[derive(Clone)]
struct Wanted {
    config: Arc<FlightRecorderConfig>,
    made: Arc<Mutex<Made>>,
}

impl Active {
    fn is_of(&self, recorder: &FlightRecorder) -> bool {
        Arc::ptr_eq(&self.wanted.config, &recorder.config)
    }
}

impl FlightRecorder {
    /// A recorder, which is off.
    pub fn new(config: FlightRecorderConfig) -> FlightRecorder {
        FlightRecorder { config: Arc::new(config) }
    }

    /// Begins to record. A trace may be made at the same time ([`trace::start`](super::start)).
    ///
    /// # Errors
    /// If this or another recorder is on, or if there is no memory or no thread for it.
    pub fn start(&self) -> io::Result<()> {
        boot::ensure();
        blocking(|| self.start_blocking())
    }

    fn start_blocking(&self) -> io::Result<()> {
        let mut active = lock();
        if active.is_some() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "a flight recorder is on already, and there can be only one: call its stop first",
            ));
        }
        let config = Arc::clone(&self.config);
        let limits = Limits { age: config.min_age, bytes: config.max_bytes };
        intake().begin_window(|now| Window::new(limits, now))?;
        let names = snapshot::names_now();
        if let Some(window) = &mut intake().window {
            names.into_iter().for_each(|(g, name)| window.memory.learn_name(g, name));
        }
        STOP.store(false, Ordering::Relaxed);
        if let Some(limit) = config.latency_limit {
            EVENTS.latency.begin(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX - 1));
        }
        let wanted = Wanted { config, made: Arc::default() };
        let own = wanted.clone();
        let thread = std::thread::Builder::new().name("gort-flight".into()).spawn(move || record(&own));
        let thread = thread.inspect_err(|_| end_recording())?;
        *active = Some(Active { wanted, thread });
        Ok(())
    }

    /// Ends the recording, and forgets what was recorded. Does nothing if this recorder is off.
    pub fn stop(&self) {
        blocking(|| {
            let mut active = lock();
            if let Some(Active { thread, .. }) = active.take_if(|active| active.is_of(self)) {
                STOP.store(true, Ordering::Release);
                EVENTS.wake.set();
                // It does not panic.
                let _ended = thread.join();
                end_recording();
            }
        });
    }

    /// Whether this recorder is on.
    pub fn is_enabled(&self) -> bool {
        lock().as_ref().is_some_and(|active| active.is_of(self))
    }

    /// Writes a trace of what is recorded now: a file for `go tool trace` or `gort trace`. The recorder goes
    /// on recording, and the program runs on meanwhile.
    ///
    /// # Errors
    /// If this recorder is off, if the writer fails, or if so much happens that events are lost all the time.
    pub fn write_to(&self, writer: &mut impl Write) -> io::Result<Summary> {
        if !self.is_enabled() {
            return Err(snapshot::stopped());
        }
        let (bytes, summary) = blocking(|| {
            let make = || snapshot::take().map(snapshot::Taken::into_trace);
            let thread =
                std::thread::Builder::new().name("gort-snapshot".into()).stack_size(STACK).spawn(make)?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the snapshot's thread panicked")))
        })?;
        writer.write_all(&bytes)?;
        Ok(summary)
    }
}

/// A trace of what is recorded now by the recorder that is on. The caller is an OS thread with a stack of at
/// least [`STACK`].
#[cfg(feature = "debug")]
pub(crate) fn trace_of_active() -> io::Result<Vec<u8>> {
    if lock().is_none() {
        return Err(snapshot::stopped());
    }
    snapshot::take().map(|taken| taken.into_trace().0)
}

/// A recorder is off when it is dropped.
impl Drop for FlightRecorder {
    fn drop(&mut self) {
        self.stop();
    }
}

fn end_recording() {
    EVENTS.latency.end();
    intake().end_window();
}

/// The recorder's thread. It does not lock [`ACTIVE`], whose holder may wait for its end.
fn record(wanted: &Wanted) {
    let tid = &SCHED.platform.flight_thread;
    tid.store(thread::tid(), Ordering::Relaxed);
    while !STOP.load(Ordering::Acquire) {
        let round = if intake().read() { ROUND } else { IDLE_ROUND };
        // A recorder without a limit does not report what an earlier one has left.
        if wanted.config.latency_limit.is_some()
            && let Some(nanos) = EVENTS.latency.take()
        {
            drop(automatic::begin(wanted, SnapshotCause::Latency(Duration::from_nanos(nanos))));
        }
        EVENTS.wake.wait_until(Some(Instant::now() + round));
    }
    tid.store(0, Ordering::Relaxed);
}

/// Makes a snapshot of the flight recorder now, and returns when it is where the recorder's
/// [configuration](FlightRecorderConfig) says: a file, or a call. Returns whether it was made: not if no
/// recorder is on, if it was told neither place, if it has made too many, or if that failed. `cause` becomes
/// a part of the file's name.
///
/// This is for panic hooks, and for whatever else the program finds remarkable:
///
/// ```no_run
/// let before = std::panic::take_hook();
/// std::panic::set_hook(Box::new(move |info| {
///     before(info);
///     if info.location().is_some_and(|place| place.file().contains("billing")) {
///         gort::trace::snapshot("panic");
///     }
/// }));
/// ```
pub fn snapshot(cause: &str) -> bool {
    automatic::on_and_wait(SnapshotCause::Program(cause.to_owned()))
}
