//! Settings with which a program starts the runtime.

use std::fmt;
use std::time::Duration;

use super::OnDeadlock;
use crate::diag;
use crate::diag::stall::{OnStall, Stall};
use crate::sched::boot::{self, Choices};

/// Settings of the runtime. Without a `Config` the runtime starts with its defaults on first use: of a
/// goroutine, a timer, [`max_procs`](super::max_procs) and almost anything else. `#[gort::main]` starts the
/// runtime before the body runs, so a program with settings has a plain `main`:
///
/// ```
/// gort::runtime::Config::new().max_threads(100).start().unwrap();
/// gort::run(|| println!("in a goroutine"));
/// ```
///
/// ```
/// let config = gort::runtime::Config::new().max_procs(2).max_threads(100);
/// config.start().unwrap();
/// assert_eq!(gort::runtime::max_procs(), 2);
/// assert!(gort::runtime::Config::new().start().is_err());
/// ```
#[derive(Debug, Default)]
#[must_use = "nothing happens before `start`"]
pub struct Config {
    scheduler: Choices,
    reports: diag::Choices,
}

impl Config {
    /// The defaults.
    pub fn new() -> Config {
        Config::default()
    }

    /// GOMAXPROCS: as [`set_max_procs`](super::set_max_procs), before the first goroutine runs. It takes
    /// precedence over the environment. 0 means no choice.
    pub fn max_procs(mut self, n: usize) -> Config {
        self.scheduler.max_procs = (n != 0).then_some(n);
        self
    }

    /// The most OS threads that run goroutines, at least 1; 10,000 unless set. Threads whose goroutines are
    /// in blocking calls count, too. When all of them are in use, runnable goroutines wait until one is free,
    /// and a message says so once. For more than 10,000, raise `vm.max_map_count`: Linux allows a process
    /// 65,530 mappings by default, and each thread takes about five.
    pub fn max_threads(mut self, n: usize) -> Config {
        self.scheduler.max_threads = Some(n);
        self
    }

    /// Whether goroutines that compute for long may be interrupted by signals (SIGURG). If not, they let
    /// others run only when they call into gort. `GODEBUG=asyncpreemptoff=1` switches the signals off as
    /// well.
    pub fn preempt_by_signal(mut self, yes: bool) -> Config {
        self.scheduler.preempt_by_signal = Some(yes);
        self
    }

    /// How much stack, in bytes, each goroutine can use at least, however many there are; up to 1 GiB. Unless
    /// set (here or by `GORT_STACK_SIZE=256K`), 256 KiB of address space. A larger size costs address space
    /// and, for very many goroutines, page tables: 4 kB each from 2 MiB on.
    ///
    /// ```
    /// let _ = gort::runtime::Config::new().stack_size(1 << 20).max_stack(256 << 20);
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Config {
        self.scheduler.stack_size = Some(bytes);
        self
    }

    /// How deep, in bytes, the stack of a goroutine can grow as long as there are at most 10,000 goroutines;
    /// up to 1 GiB. Unless set (here or by `GORT_MAX_STACK=64M`), 64 MiB. With 0 stacks do not grow beyond
    /// [`stack_size`](Config::stack_size), and the first ten thousand goroutines need 4 kB less each. See
    /// [`guide::stacks`](crate::guide::stacks).
    pub fn max_stack(mut self, bytes: usize) -> Config {
        self.scheduler.max_stack = Some(bytes);
        self
    }

    /// How late timers may be, so that one wake-up serves several. Unless set, 50 µs, and 250 µs while many
    /// timers are due soon: with 500 sleepers or more, a longer slack saves most of the CPU time of their
    /// wake-ups. From 1 µs to 1 s. For single sleeps there is
    /// [`sleep_with_slack`](crate::time::sleep_with_slack).
    ///
    /// ```
    /// use std::time::Duration;
    /// let _ = gort::runtime::Config::new().timer_slack(Duration::from_millis(1));
    /// ```
    pub fn timer_slack(mut self, slack: Duration) -> Config {
        let slack = slack.clamp(Duration::from_micros(1), Duration::from_secs(1));
        self.scheduler.timer_slack = Some(slack.as_nanos() as u64);
        self
    }

    /// What happens when all goroutines wait for each other forever. A deadlock is found only if no thread
    /// and no signal handler outside of gort could end it. `GORT_DEBUG=deadlock=0` switches the search off.
    ///
    /// ```
    /// use gort::runtime::{Config, OnDeadlock};
    /// let _ = Config::new().on_deadlock(OnDeadlock::Callback(Box::new(|dump| eprintln!("stuck:\n{dump}"))));
    /// ```
    pub fn on_deadlock(mut self, action: OnDeadlock) -> Config {
        self.reports.on_deadlock = Some(action);
        self
    }

    /// Whether SIGQUIT prints the stacks of all goroutines before it ends the process, as in Go. The default
    /// is yes; but not if the program has a handler of its own when the runtime starts, or with
    /// `GORT_DEBUG=sigquit=0`.
    pub fn dump_on_sigquit(mut self, yes: bool) -> Config {
        self.reports.sigquit = Some(yes);
        self
    }

    /// Reports every goroutine that is stalled for longer than `limit`, once for each stall, to standard
    /// error: one that is runnable and does not run, that is in a blocking call which is not marked by
    /// [`blocking`](crate::blocking), or that keeps its processor from others and does not let go. The report
    /// has the goroutine's name, its spawn site and the stack that it had meanwhile.
    ///
    /// A thread of its own watches: it looks at all goroutines four times within the limit (but not more than
    /// a thousand times a second), and sleeps while all of them wait. A limit of 0 counts as 1 ms.
    /// Goroutines in a [`bubble`](crate::testing::bubble) are not watched. See [`guide::inside`].
    ///
    /// ```
    /// use std::time::Duration;
    /// let config = gort::runtime::Config::new().stall_after(Duration::from_millis(20));
    /// config.on_stall(|stall| println!("{:?}: {stall}", stall.kind())).start().unwrap();
    /// gort::run(|| std::thread::sleep(Duration::from_millis(100))); // reported: it is not marked
    /// ```
    ///
    /// [`guide::inside`]: crate::guide::inside
    pub fn stall_after(mut self, limit: Duration) -> Config {
        self.reports.stall_after = Some(limit.max(Duration::from_millis(1)));
        self
    }

    /// Calls a function for each stall that [`stall_after`](Config::stall_after) reports, on the thread that
    /// watches: as long as the function runs, nothing else is reported. A panic ends the watch. Without
    /// `stall_after` nothing is watched: then the runtime says so on standard error when it starts.
    pub fn on_stall(mut self, f: impl Fn(&Stall) + Send + Sync + 'static) -> Config {
        self.reports.on_stall = Some(OnStall(Box::new(f)));
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    /// If it runs already.
    pub fn start(self) -> Result<(), AlreadyStarted> {
        let started = boot::start_with(self.scheduler, || diag::choose(self.reports));
        if started { Ok(()) } else { Err(AlreadyStarted(())) }
    }
}

/// The error that the runtime runs already, so the settings came too late. See [`Config::start`].
#[derive(Debug)]
pub struct AlreadyStarted(());

impl fmt::Display for AlreadyStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "gort's runtime runs already: Config::start must come before the first use of it in the process \
             (and #[gort::main] is one: call Config::start in a plain main, and then gort::run)",
        )
    }
}

impl std::error::Error for AlreadyStarted {}
