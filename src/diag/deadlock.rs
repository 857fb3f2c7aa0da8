//! The deadlock detector: finds out that all goroutines are asleep and that nothing will ever wake one.
//!
//! It is a deadlock when
//! 1. some thread outside of gort (main) waits for something of gort's, without a deadline;
//! 2. every goroutine is parked, none of them sleeping or waiting for I/O or a future, and there is no timer
//!    and no connection of `gort::http`;
//! 3. every thread of the process is gort's own (an M, sysmon, the housekeeper) or waits as in 1;
//! 4. the program has no signal handler of its own, which could do anything.
//!
//! Then nothing is left that could end a wait. A goroutine in a blocking call, marked or not, is not parked
//! (2), and a thread that gort does not know might send something later (3), so neither is ever taken for a
//! deadlock.
//!
//! The check looks at these one after the other while things may move. But a movement leaves a trace: a
//! goroutine that runs counts a tick of its P, and a foreign thread that begins to wait counts a wait. If
//! both counts are the same before and after, and all were found asleep in between, then all slept at the
//! same time: the last one that was awake would have had to go to sleep, and that would have been counted.
//!
//! sysmon requests the check when it finds every P idle, and a foreign thread when it waits while all are.
//! The housekeeper makes the check a moment later. If only a thread that gort does not know speaks against a
//! deadlock, it checks a few times more, at growing intervals, because that thread may end. Then it gives up:
//! an idle process must not wake up forever.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::dump::Dump;
use super::report_thread;
use crate::future::crew;
use crate::netpoll;
use crate::sched::idle::due_timers;
use crate::sched::idle::start_m::wake_housekeeper;
use crate::sched::machine::SCHED;
use crate::sched::types::foreign_thread;
use crate::sched::types::g::G;
use crate::sched::word::status::{Status, WaitReason};
use crate::sys::{signal, stderr, thread};
use crate::timer::NEVER;
use crate::trace::{self, SnapshotCause, automatic};

/// What happens when all goroutines wait for each other, and main for them.
///
/// It is not possible to go on with a panic in main: the goroutines may still borrow from its stack, as may
/// the object that it waits for.
#[derive(Default)]
#[non_exhaustive]
pub enum OnDeadlock {
    /// Print `fatal error: all goroutines are asleep - deadlock!` and every goroutine's stack to standard
    /// error, and exit with status 2, as Go does.
    #[default]
    Report,
    /// Print the same and abort, so that there is a core dump.
    Abort,
    /// Call this function, on a thread of the runtime's own. When it returns, the program goes on waiting.
    Callback(Box<dyn Fn(&Dump) + Send + Sync>),
    /// Do not look for deadlocks.
    Ignore,
}

impl fmt::Debug for OnDeadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnDeadlock::Report => "Report",
            OnDeadlock::Abort => "Abort",
            OnDeadlock::Callback(_) => "Callback",
            OnDeadlock::Ignore => "Ignore",
        })
    }
}

/// What to do after a deadlock was found.
static ACTION: OnceLock<OnDeadlock> = OnceLock::new();
static ENABLED: AtomicBool = AtomicBool::new(false);
/// A check was requested.
static WANTED: AtomicBool = AtomicBool::new(false);

/// The time between a request and the first check. It is longer for a program with sockets, which is often
/// idle and rarely in a deadlock.
fn first_look() -> Duration {
    if netpoll::has_waiters() { Duration::from_secs(1) } else { LOOKS[0] }
}

/// The first check is made this long after everything became idle; each further check, if needed, after the
/// next interval.
const LOOKS: [Duration; 4] =
    [Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(10)];

/// Called once, at start-up.
pub(super) fn init(action: OnDeadlock) {
    let wanted = !matches!(action, OnDeadlock::Ignore);
    if ACTION.set(action).is_ok() {
        ENABLED.store(wanted, Ordering::Relaxed);
    }
}

/// Called when every P is idle: requests a check, unless a timer will fire later.
pub(super) fn all_idle() {
    let wanted = ENABLED.load(Ordering::Relaxed) && due_timers::earliest() == NEVER;
    if wanted && !WANTED.swap(true, Ordering::SeqCst) {
        wake_housekeeper();
    }
}

/// Makes the checks, on the housekeeper's thread.
pub(super) struct Detective {
    /// A request was seen and not answered yet.
    asked: bool,
    /// When to make the next check, and how many were made before it.
    next: Option<(Instant, usize)>,
}

impl Detective {
    pub(super) const fn new() -> Detective {
        Detective { asked: false, next: None }
    }

    /// Makes a check if it is due. Returns when the next one is due, and whether this one found a deadlock:
    /// then the caller must call [`report`].
    pub(super) fn serve(&mut self) -> (Option<Instant>, bool) {
        let mut found = false;
        if !self.asked && WANTED.load(Ordering::Relaxed) {
            self.asked = true;
            let at = Instant::now() + first_look();
            self.next = Some((self.next.map_or(at, |(before, _)| at.min(before)), 0));
        }
        if let Some((at, times)) = self.next
            && Instant::now() >= at
        {
            *self = Detective::new();
            // SeqCst: a thread that requests a check from now on wakes the housekeeper again; a thread that
            // did before is asleep, or this check will see it awake.
            WANTED.swap(false, Ordering::SeqCst);
            match look() {
                Finding::Alive => {}
                Finding::Stranger => {
                    self.next = LOOKS.get(times + 1).map(|&later| (Instant::now() + later, times + 1));
                }
                Finding::Deadlock => found = true,
            }
        }
        (self.next.map(|(at, _)| at), found)
    }
}

/// Does what the program chose for a deadlock, on a thread of its own.
pub(super) fn report() {
    report_thread::run(act);
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// A goroutine or thread is awake, or will be. When that ends, another check will be requested.
    Alive,
    /// Only a thread that gort does not know, or a signal handler, could still end a wait.
    Stranger,
    Deadlock,
}

/// Checks whether there is a deadlock.
fn look() -> Finding {
    let before = activity();
    if !all_parked() {
        return Finding::Alive;
    }
    let sleepers: HashSet<u32> = foreign_thread::sleepers().collect();
    if sleepers.is_empty() || signal::program_has_handlers() {
        return Finding::Stranger;
    }
    let Some(threads) = thread::all() else { return Finding::Stranger };
    let machine = &SCHED.platform;
    let ours: HashSet<u32> = machine.live_ms().map(|m| m.tid()).chain(machine.service_threads()).collect();
    if threads.iter().any(|tid| !ours.contains(tid) && !sleepers.contains(tid)) {
        return Finding::Stranger;
    }
    if all_parked() && activity() == before { Finding::Deadlock } else { Finding::Alive }
}

/// Changes whenever a goroutine or a foreign thread ran.
fn activity() -> (u64, u64) {
    (SCHED.all_ps().map(|p| u64::from(p.tick.load(Ordering::SeqCst))).sum(), foreign_thread::waits())
}

fn all_parked() -> bool {
    let idle = SCHED.all_ps_idle() && !SCHED.platform.ps_leaving() && SCHED.idle.spinning() == 0;
    if !idle || SCHED.work_anywhere() || due_timers::earliest() != NEVER || crew::has_tasks() {
        return false;
    }
    G::all(|g| {
        // A future may wait for I/O, or for something that gort does not know.
        let wakes_by_itself = || {
            let reason = g.wait_reason();
            matches!(
                reason,
                WaitReason::Sleep | WaitReason::IoRead | WaitReason::IoWrite | WaitReason::Future
            )
        };
        match g.status() {
            Status::Dead => true,
            Status::Waiting => g.park.is_parked() && !wakes_by_itself(),
            _ => false,
        }
    })
}

/// Does what the program chose for a deadlock.
fn act() {
    // The process may end with the report.
    automatic::on_and_wait(SnapshotCause::Deadlock);
    match ACTION.get() {
        None | Some(OnDeadlock::Ignore) => {}
        Some(OnDeadlock::Callback(call)) => call(&Dump::take(false)),
        Some(action) => {
            let mut out = stderr::Pieces::new();
            let _nobody_listens =
                write!(out, "fatal error: all goroutines are asleep - deadlock!\n\n{}", Dump::take(true));
            for tid in foreign_thread::sleepers() {
                let _nobody_listens = writeln!(out, "\nthread {tid} outside of gort waits too");
            }
            drop(out);
            if matches!(action, OnDeadlock::Abort) {
                trace::end_without_exit_handlers();
                std::process::abort();
            }
            std::process::exit(2);
        }
    }
}
