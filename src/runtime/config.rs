//! Settings that hold from the start.

use std::fmt;

use super::OnDeadlock;
use crate::diag;
use crate::sched::boot::{self, Choices};

/// What the runtime shall be like. Without it, it starts with its defaults on first use, which is almost
/// anything: a goroutine, a timer, [`max_procs`](super::max_procs). `#[gort::main]` has started it before the
/// body runs, so a program with settings has a plain `main`, in which it says:
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

    /// GOMAXPROCS: as [`set_max_procs`](super::set_max_procs), before the first goroutine runs. It wins over
    /// the environment, but for 0, which is no choice.
    pub fn max_procs(mut self, n: usize) -> Config {
        self.scheduler.max_procs = (n != 0).then_some(n);
        self
    }

    /// The most OS threads that run goroutines, at least 1; 10,000 unless set. When as many are in use,
    /// goroutines that are ready wait until one comes back, and a message says so once.
    pub fn max_threads(mut self, n: usize) -> Config {
        self.scheduler.max_threads = Some(n);
        self
    }

    /// How many goroutines may be stopped by signals at the same time, each of which keeps a thread; 256
    /// unless set. If as many are, goroutines that compute for long are no longer interrupted.
    pub fn max_preempted(mut self, n: usize) -> Config {
        self.scheduler.max_preempted = Some(n);
        self
    }

    /// Whether goroutines that compute for long may be interrupted by signals (SIGURG). Without, they are
    /// asked to let others run only when they call into gort. `GODEBUG=asyncpreemptoff=1` does the same.
    pub fn preempt_by_signal(mut self, yes: bool) -> Config {
        self.scheduler.preempt_by_signal = Some(yes);
        self
    }

    /// What happens when all goroutines wait for each other for ever. Deadlocks are found if no thread or
    /// signal handler outside of gort could end them; `GORT_DEBUG=deadlock=0` switches the search off.
    ///
    /// ```
    /// use gort::runtime::{Config, OnDeadlock};
    /// let _ = Config::new().on_deadlock(OnDeadlock::Callback(Box::new(|dump| eprintln!("stuck:\n{dump}"))));
    /// ```
    pub fn on_deadlock(mut self, action: OnDeadlock) -> Config {
        self.reports.on_deadlock = Some(action);
        self
    }

    /// Whether SIGQUIT prints the stacks of all goroutines before it ends the process, as in Go. Yes, unless
    /// the program has a handler of its own when the runtime starts, or with `GORT_DEBUG=sigquit=0`.
    pub fn dump_on_sigquit(mut self, yes: bool) -> Config {
        self.reports.sigquit = Some(yes);
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    /// If it runs already.
    pub fn start(self) -> Result<(), AlreadyStarted> {
        diag::choose(self.reports);
        if boot::start_with(self.scheduler) { Ok(()) } else { Err(AlreadyStarted(())) }
    }
}

/// The runtime runs already: the settings came too late. See [`Config::start`].
#[derive(Debug)]
pub struct AlreadyStarted(());

impl fmt::Display for AlreadyStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "gort's runtime runs already: Config::start must come before the first use of it in the process (and \
             #[gort::main] is one: call Config::start in a plain main, and then gort::run)",
        )
    }
}

impl std::error::Error for AlreadyStarted {}
