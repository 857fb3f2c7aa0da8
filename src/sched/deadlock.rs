//! All goroutines are asleep: finding out that nobody will ever wake anybody up.
//!
//! It is a deadlock when
//! 1. some thread outside of gort (main) waits for something of gort's, without a deadline;
//! 2. every goroutine is parked, none of them sleeping or waiting for I/O or a future, and there is no timer and no
//!    connection of `gort::http`;
//! 3. every thread of the process is gort's own (an M, sysmon, the steward) or waits as in 1;
//! 4. the program has no signal handler of its own, which could do anything.
//!
//! Then nobody is left who could end a wait. A goroutine in a blocking call, marked or not, is not parked (2), and a thread that
//! gort does not know might send something later (3), so neither is ever taken for a deadlock.
//!
//! These are looked at one after the other while things may move. But whoever moves leaves a trace: a goroutine that runs
//! counts a tick of its P, and a foreign thread that comes to wait counts a wait. If both counts are the same before and after,
//! and everybody was found asleep between, then all slept at once: the last one that was awake would have had to
//! go to sleep, and be counted.
//!
//! sysmon asks for the check when it finds every P idle, and a foreign thread when it waits while all are. The steward makes it
//! a moment later. If it was only a strange thread that stood against it, it looks a few times more, in growing
//! intervals: the thread may have ended. Then it leaves it; an idle process must not wake up for ever.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::global::{PROCS, SLEEP};
use super::reason::WaitReason;
use super::status::Status;
use super::{find, foreign, m, p, procs, steward, sysmon};
use crate::future::crew;
use crate::netpoll;
use crate::runtime::{Dump, OnDeadlock};
use crate::stack::slab;
use crate::sys::{signal, stderr, thread};
use crate::timer::{self, NEVER};

/// What to do; unset: nothing is looked for.
static ACTION: OnceLock<OnDeadlock> = OnceLock::new();
static ENABLED: AtomicBool = AtomicBool::new(false);

/// The threads of sysmon and the steward.
static OWN_THREADS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// How long after a request the first look is. A program with sockets is idle all the time, and seldom dead.
pub(crate) fn first_look() -> Duration {
    if netpoll::has_waiters() { Duration::from_secs(1) } else { LOOKS[0] }
}

/// So long after everything became idle the check is made; then, if need be, again after each of the others.
pub(crate) const LOOKS: [Duration; 4] =
    [Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(10)];

/// Once, at start-up.
pub(crate) fn init(action: OnDeadlock) {
    let wanted = !matches!(action, OnDeadlock::Ignore);
    if ACTION.set(action).is_ok() {
        ENABLED.store(wanted, Ordering::Relaxed);
    }
}

/// The calling thread is one of the runtime's two that run no goroutines.
pub(crate) fn register_own_thread(index: usize) {
    OWN_THREADS[index].store(thread::tid(), Ordering::Relaxed);
}

pub(crate) fn is_own_thread(tid: u32) -> bool {
    OWN_THREADS.iter().any(|own| own.load(Ordering::Relaxed) == tid)
}

/// Every P is idle: asks for a check, unless something will surely happen later.
pub(crate) fn request() {
    if ENABLED.load(Ordering::Relaxed) && timer::earliest() == NEVER {
        steward::request_deadlock_check();
    }
}

/// A foreign thread is about to wait.
pub(crate) fn request_if_idle() {
    if ENABLED.load(Ordering::Relaxed) && sysmon::is_asleep() {
        request();
    }
}

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Somebody is awake, or will be. If that ends, another check is asked for.
    Alive,
    /// Only a thread that gort does not know might be.
    Stranger,
    Deadlock,
}

/// Looks whether there is a deadlock.
pub(crate) fn look() -> Finding {
    let before = activity();
    if !all_parked() {
        return Finding::Alive;
    }
    let sleepers: HashSet<u32> = foreign::sleepers().collect();
    if sleepers.is_empty() || signal::program_has_handlers() {
        return Finding::Stranger;
    }
    let Some(threads) = thread::all() else { return Finding::Stranger };
    let ours: HashSet<u32> = m::all()
        .filter(|m| m.alive.load(Ordering::Acquire))
        .map(|m| m.tid())
        .chain(OWN_THREADS.iter().map(|tid| tid.load(Ordering::Relaxed)))
        .collect();
    if threads.iter().any(|tid| !ours.contains(tid) && !sleepers.contains(tid)) {
        return Finding::Stranger;
    }
    if all_parked() && activity() == before { Finding::Deadlock } else { Finding::Alive }
}

/// Changes whenever somebody ran.
fn activity() -> (u64, u64) {
    (p::all().map(|p| u64::from(p.tick.load(Ordering::SeqCst))).sum(), foreign::waits())
}

fn all_parked() -> bool {
    let idle = SLEEP.idle() >= PROCS.load(Ordering::SeqCst) && !procs::some_leave();
    if !idle
        || SLEEP.spinning() != 0
        || find::work_anywhere()
        || timer::earliest() != NEVER
        || crew::has_tasks()
    {
        return false;
    }
    slab::all_g(|g| {
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

/// Says so, on a thread with a stack that is large enough to look up names.
pub(crate) fn report() {
    if thread::start("gort-report", 4 << 20, act).is_err() {
        act();
    }
}

fn act() {
    match ACTION.get() {
        None | Some(OnDeadlock::Ignore) => {}
        Some(OnDeadlock::Callback(call)) => call(&Dump::take(false)),
        Some(action) => {
            let mut out = stderr::Pieces::new();
            let _nobody_listens =
                write!(out, "fatal error: all goroutines are asleep - deadlock!\n\n{}", Dump::take(true));
            for tid in foreign::sleepers() {
                let _nobody_listens = writeln!(out, "\nthread {tid} outside of gort waits too");
            }
            drop(out);
            if matches!(action, OnDeadlock::Abort) {
                std::process::abort();
            }
            std::process::exit(2);
        }
    }
}
