//! What a program chooses about its flight recorder.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::automatic::Snapshot;

type OnSnapshot = Box<dyn Fn(&Snapshot) + Send + Sync>;

/// How much a [`FlightRecorder`](super::FlightRecorder) keeps, and what it does by itself.
pub struct FlightRecorderConfig {
    pub(super) min_age: Duration,
    pub(super) max_bytes: usize,
    pub(super) directory: Option<PathBuf>,
    pub(super) on_snapshot: Option<OnSnapshot>,
    pub(super) most_snapshots: usize,
    pub(super) pause: Duration,
    pub(super) latency_limit: Option<Duration>,
}

impl Default for FlightRecorderConfig {
    fn default() -> FlightRecorderConfig {
        FlightRecorderConfig {
            min_age: Duration::from_secs(10),
            max_bytes: 10 << 20,
            directory: None,
            on_snapshot: None,
            most_snapshots: 10,
            pause: Duration::from_secs(60),
            latency_limit: None,
        }
    }
}

impl FlightRecorderConfig {
    /// Ten seconds, ten MiB, no snapshots by itself.
    pub fn new() -> FlightRecorderConfig {
        FlightRecorderConfig::default()
    }

    /// A snapshot goes back at least this far, unless that needs too many bytes. In Go: `MinAge`. The default
    /// is 10 seconds.
    pub fn min_age(mut self, age: Duration) -> FlightRecorderConfig {
        self.min_age = age;
        self
    }

    /// Events are kept in at most about this much memory, whatever their age. In Go: `MaxBytes`. The default
    /// is 10 MiB, which is room for about 650,000 events. The file of a snapshot is smaller. While a snapshot
    /// is being prepared, what comes in is kept, too: up to 64 MiB, or as much again if that is more.
    pub fn max_bytes(mut self, bytes: usize) -> FlightRecorderConfig {
        self.max_bytes = bytes;
        self
    }

    /// Writes the recorder's own snapshots to files in this directory: on a stall
    /// ([`Config::stall_after`](crate::runtime::Config::stall_after)), on a deadlock report, on a scheduling
    /// latency above the [limit](FlightRecorderConfig::latency_limit), and when the program calls
    /// [`trace::snapshot`](super::snapshot). The names tell the time (seconds since 1970), the process, the
    /// number and the cause: `gort-flight-1790000000-4711-1-stall.trace`. A line on standard error names each
    /// file, or says why there is none.
    ///
    /// ```no_run
    /// use gort::trace::{FlightRecorder, FlightRecorderConfig};
    ///
    /// static RECORDER: std::sync::OnceLock<FlightRecorder> = std::sync::OnceLock::new();
    /// let config = FlightRecorderConfig::new().snapshots_in("/var/lib/my-server");
    /// RECORDER.get_or_init(|| FlightRecorder::new(config)).start()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn snapshots_in(mut self, directory: impl Into<PathBuf>) -> FlightRecorderConfig {
        self.directory = Some(directory.into());
        self
    }

    /// Passes the recorder's own snapshots to this function, on a thread made for that.
    ///
    /// ```
    /// use gort::trace::FlightRecorderConfig;
    ///
    /// let config = FlightRecorderConfig::new()
    ///     .on_snapshot(|snapshot| println!("{}: {} bytes", snapshot.cause(), snapshot.trace().len()));
    /// # drop(config);
    /// ```
    pub fn on_snapshot(mut self, f: impl Fn(&Snapshot) + Send + Sync + 'static) -> FlightRecorderConfig {
        self.on_snapshot = Some(Box::new(f));
        self
    }

    /// After this many snapshots the recorder makes no more by itself, until it is started again. Those that
    /// failed do not count. The default is 10.
    pub fn most_snapshots(mut self, count: usize) -> FlightRecorderConfig {
        self.most_snapshots = count;
        self
    }

    /// For this long after a snapshot the recorder makes no other by itself. The default is a minute.
    pub fn pause_between_snapshots(mut self, pause: Duration) -> FlightRecorderConfig {
        self.pause = pause;
        self
    }

    /// Makes a snapshot when a goroutine was runnable for longer than this before it ran. Every goroutine is
    /// watched, except those of a [`testing::bubble`](crate::testing::bubble). One that still has not run is
    /// a case for [`Config::stall_after`](crate::runtime::Config::stall_after).
    pub fn latency_limit(mut self, limit: Duration) -> FlightRecorderConfig {
        self.latency_limit = Some(limit);
        self
    }
}

impl fmt::Debug for FlightRecorderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightRecorderConfig")
            .field("min_age", &self.min_age)
            .field("max_bytes", &self.max_bytes)
            .field("directory", &self.directory)
            .field("on_snapshot", &self.on_snapshot.is_some())
            .field("most_snapshots", &self.most_snapshots)
            .field("pause", &self.pause)
            .field("latency_limit", &self.latency_limit)
            .finish()
    }
}
