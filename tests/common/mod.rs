//! What the integration tests share: amounts, child processes, waiting for conditions, a watchdog.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a condition may take before the test gives up. Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100);

/// The amounts of TESTS.md instead of the quick ones.
pub(crate) fn full() -> bool {
    std::env::var_os("GORT_FULL").is_some_and(|value| value == "1")
}

/// `quick`, or `full` with `GORT_FULL=1`.
pub(crate) fn amount(quick: usize, full_amount: usize) -> usize {
    if full() { full_amount } else { quick }
}

/// Lets others run until `condition` holds.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "gave up waiting until {what}");
        gort::yield_now();
    }
}

/// As [`until`], but keeps the processor: for goroutines that must not enter the runtime.
#[track_caller]
pub(crate) fn spin_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "gave up waiting until {what}");
        std::hint::spin_loop();
    }
}

/// Ends the process when the test hangs: a lost wake-up shall fail, not block.
pub(crate) struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    pub(crate) fn start() -> Watchdog {
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        let message = format!("watchdog: {name} hangs (pid {})\n", std::process::id());
        let alive = Arc::new(AtomicBool::new(true));
        let seen = alive.clone();
        let hold = std::env::var_os("GORT_HOLD").is_some();
        std::thread::spawn(move || {
            let start = Instant::now();
            while seen.load(Ordering::Relaxed) {
                if start.elapsed() > PATIENCE + Duration::from_secs(20) {
                    // Without malloc and without std's locks: what hangs may hold them.
                    // SAFETY: writes a string; ends the process.
                    unsafe {
                        libc::write(2, message.as_ptr().cast(), message.len());
                        if hold {
                            libc::sleep(100_000); // for a debugger
                        }
                        libc::abort();
                    }
                }
                std::thread::park_timeout(Duration::from_secs(1));
            }
        });
        Watchdog(alive)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// GOMAXPROCS for one test: others that use this guard wait, and the former value comes back.
pub(crate) struct Procs {
    before: usize,
    _watchdog: Watchdog,
    _one_at_a_time: MutexGuard<'static, ()>,
}

impl Procs {
    pub(crate) fn set(n: usize) -> Procs {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let watchdog = Watchdog::start();
        Procs { before: gort::runtime::set_max_procs(n), _watchdog: watchdog, _one_at_a_time: guard }
    }
}

impl Drop for Procs {
    fn drop(&mut self) {
        gort::runtime::set_max_procs(self.before);
    }
}

const CHILD: &str = "GORT_TEST_CHILD";

/// Whether this process was started by [`child`] for the part of that name.
pub(crate) fn is_child(part: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|value| value == part)
}

/// The test `test` of this binary in a process of its own, told to play `part`. `test` must do so when
/// [`is_child`] says so.
pub(crate) fn child(test: &str, part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, part);
    for name in ["GOMAXPROCS", "GORT_MAXPROCS", "GODEBUG", "GORT_DEBUG", "RUST_BACKTRACE"] {
        command.env_remove(name);
    }
    command
}

/// What a child printed, for comparing and for messages.
pub(crate) struct Printed {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) output: Output,
}

/// Runs the child to its end.
pub(crate) fn run(mut command: Command) -> Printed {
    let output = command.output().unwrap();
    Printed {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        output,
    }
}

/// Runs the child, which must succeed.
#[track_caller]
pub(crate) fn run_ok(command: Command) -> Printed {
    let printed = run(command);
    assert!(
        printed.output.status.success(),
        "the child failed: {}\n--- stdout\n{}\n--- stderr\n{}",
        printed.output.status,
        printed.stdout,
        printed.stderr
    );
    printed
}

/// Runs the rest of the test in a process of its own: false in the one that has done so.
#[track_caller]
pub(crate) fn alone(test: &str) -> bool {
    alone_with(test, &[])
}

/// The same, with these variables in its environment.
#[track_caller]
pub(crate) fn alone_with(test: &str, variables: &[(&str, &str)]) -> bool {
    if is_child("alone") {
        return true;
    }
    let _watchdog = Watchdog::start();
    let mut child = child(test, "alone");
    child.envs(variables.iter().copied());
    print!("{}", run_ok(child).stdout);
    false
}

impl Printed {
    /// The value of the line `name=value` on stdout. The test harness may have put words before it.
    #[track_caller]
    pub(crate) fn value(&self, name: &str) -> &str {
        let key = format!("{name}=");
        let line = self.stdout.lines().find_map(|line| line.split_once(&key).map(|(_, value)| value));
        match line {
            Some(value) => value,
            None => panic!("no {name} in\n{}\n{}", self.stdout, self.stderr),
        }
    }
}

/// The kernel's id of the calling thread.
pub(crate) fn tid() -> i32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() }
}

/// Moves the calling goroutine to another thread: while a second goroutine is bound to the thread of the first,
/// the first can only go on elsewhere.
#[track_caller]
pub(crate) fn migrate() {
    let before = tid();
    while tid() == before {
        let (elsewhere, moved) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (not_here, let_go) = (elsewhere.clone(), moved.clone());
        gort::spawn(move || {
            let _bound = gort::runtime::os_thread_guard();
            if tid() == before {
                until("the other goroutine has moved", || let_go.load(Ordering::Acquire));
            } else {
                not_here.store(true, Ordering::Release);
            }
        });
        until("the goroutine has moved", || tid() != before || elsewhere.load(Ordering::Acquire));
        moved.store(true, Ordering::Release);
    }
}

/// CPU time of the process.
pub(crate) fn cpu_millis() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}
