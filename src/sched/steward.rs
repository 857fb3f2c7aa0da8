//! The steward: a thread without a P for what a goroutine's M must not do. Starting a thread allocates, and an M
//! that holds a P must not wait for the allocator: the holder of its lock may be waiting for that very P.
//!
//! At most one start is under way. It carries a spinner's token (it counts in `SLEEP`), so while it lasts
//! nobody else asks for one, and the new M looks at all queues before it gives the token up: the request cannot be
//! lost.
//!
//! It also does what has time: about once a second while goroutines run, and twice more after they stopped, it trims
//! stacks and looks whether the CPU quota changed.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use super::deadlock::{self, Finding};
use super::global::{self, SLEEP};
use super::m::{self, M};
use super::note::Note;
use super::{find, poller, procs, quit, schedtrace, schedule, section, wake};
use crate::atomic::Ordering;
use crate::stack::trim;
use crate::sys::{signal, stderr, thread};
use crate::tls::loaded;

static WAKE: Note = Note::new();
static START_M: AtomicBool = AtomicBool::new(false);
static START_SPARE: AtomicBool = AtomicBool::new(false);
static PASS_WANTED: AtomicBool = AtomicBool::new(false);
static CHECK_WANTED: AtomicBool = AtomicBool::new(false);

/// The most threads that run goroutines.
static MAX_THREADS: AtomicUsize = AtomicUsize::new(10_000);
static LIMIT_REPORTED: AtomicBool = AtomicBool::new(false);

const PASS_EVERY: Duration = Duration::from_secs(1);

/// To look at a million goroutines takes a tenth of a second: one part in so many of the time is spent on it.
const TRIM_SHARE: u32 = 50;

/// g0 of an M: the scheduler's frames are few and small.
const G0_STACK: usize = 128 << 10;
/// When the kernel refuses a thread, try again after this long, as long as work waits, or nobody polls for timers or I/O.
const RETRY: Duration = Duration::from_millis(10);

/// Asks for a new M. The caller's token in `SLEEP` passes to it.
pub(crate) fn start_spinning_m() {
    START_M.store(true, Ordering::Release);
    WAKE.set();
}

/// Asks for an M that waits until it is needed: a goroutine can be stopped by signal only if another M is there for its P.
pub(crate) fn start_spare_m() {
    START_SPARE.store(true, Ordering::Release);
    WAKE.set();
}

/// sysmon says that goroutines have run: there may be something to tidy up.
pub(crate) fn request_pass() {
    if !PASS_WANTED.swap(true, Ordering::Relaxed) {
        WAKE.set();
    }
}

/// Everything is idle: asks whether it is a deadlock.
pub(crate) fn request_deadlock_check() {
    if !CHECK_WANTED.swap(true, Ordering::SeqCst) {
        WAKE.set();
    }
}

/// Wakes the steward up, also from a signal handler.
pub(crate) fn wake() {
    WAKE.set();
}

/// Sets the most threads that may run goroutines. Once, at start-up.
pub(crate) fn limit_threads(max: Option<usize>) {
    if let Some(max) = max {
        MAX_THREADS.store(max.max(1), Ordering::Relaxed);
    }
}

/// Looks for deadlocks when asked to.
struct Detective {
    /// A request was seen and not answered yet: further ones need not wake us.
    asked: bool,
    /// When to look, and for which time.
    next: Option<(Instant, usize)>,
}

impl Detective {
    fn serve(&mut self) {
        if !self.asked && CHECK_WANTED.load(Ordering::Relaxed) {
            self.asked = true;
            let at = Instant::now() + deadlock::first_look();
            self.next = Some((self.next.map_or(at, |(before, _)| at.min(before)), 0));
        }
        let Some((at, times)) = self.next else { return };
        if Instant::now() < at {
            return;
        }
        *self = Detective { asked: false, next: None };
        // SeqCst: who asks from now on wakes us again; who asked before is asleep or will be seen awake.
        CHECK_WANTED.swap(false, Ordering::SeqCst);
        match deadlock::look() {
            Finding::Alive => {}
            Finding::Stranger => {
                self.next = deadlock::LOOKS.get(times + 1).map(|&later| (Instant::now() + later, times + 1));
            }
            Finding::Deadlock => deadlock::report(),
        }
    }
}

/// Prints the scheduler's state at regular times.
pub(crate) struct Trace {
    every: Duration,
    detail: bool,
    start: Instant,
    next: Instant,
}

impl Trace {
    pub(crate) fn new(every: Duration, detail: bool) -> Trace {
        let start = Instant::now();
        Trace { every, detail, start, next: start + every }
    }

    fn print_if_due(&mut self) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        // After a long stop of the whole process the missed ones are left out.
        while self.next <= now {
            self.next += self.every;
        }
        stderr::write(&schedtrace::text((now - self.start).as_millis(), self.detail));
    }
}

/// The steward's thread.
pub(crate) fn run(mut trace: Option<Trace>) {
    deadlock::register_own_thread(1);
    let mut starter = Starter { retry: None };
    let mut detective = Detective { asked: false, next: None };
    let mut pass: Option<Instant> = None;
    let mut next_trim = Instant::now();
    let mut quota = procs::QuotaFollower::new();
    loop {
        let printing = trace.as_ref().map(|trace| trace.next);
        let looking = detective.next.map(|(at, _)| at);
        WAKE.wait_until(starter.retry.into_iter().chain(pass).chain(printing).chain(looking).min());
        starter.serve();
        detective.serve();
        if quit::asked() {
            quit::serve();
        }
        if let Some(trace) = &mut trace {
            trace.print_if_due();
        }
        if pass.is_none() && PASS_WANTED.load(Ordering::Relaxed) {
            pass = Some(Instant::now() + PASS_EVERY);
        }
        if pass.is_some_and(|at| at <= Instant::now()) {
            let start = Instant::now();
            if start >= next_trim {
                // One more when nothing has run since: what parked after the pass before is old enough only then.
                pass = PASS_WANTED.swap(false, Ordering::Relaxed).then(|| start + PASS_EVERY);
                // With many goroutines this takes a while; threads are wanted now.
                trim::pass(|| starter.serve());
                next_trim = start + start.elapsed() * TRIM_SHARE;
            } else {
                pass = Some(start + PASS_EVERY);
                trim::update_clock();
            }
            quota.look();
            loaded::notice();
        }
    }
}

/// Starts Ms when they are wanted.
struct Starter {
    /// The kernel refused a thread: when to try again.
    retry: Option<Instant>,
}

impl Starter {
    fn serve(&mut self) {
        if START_SPARE.swap(false, Ordering::Acquire) && global::lock().idle_m_count() == 0 {
            // Refused: goroutines are not interrupted until there is one.
            let _ = start_m(Role::Spare);
        }
        if START_M.swap(false, Ordering::Acquire) {
            self.start();
        } else if self.retry.is_some_and(|at| at <= Instant::now()) {
            self.retry = None;
            // An M may have become idle meanwhile; if not, this asks us again.
            if SLEEP.work_waits(find::work_anywhere) {
                wake::wake_p();
            } else {
                poller::ensure();
            }
        }
    }

    /// If that fails, the token is given up: the Ms that exist carry on, and we look at the queues later (S2).
    fn start(&mut self) {
        self.retry = None;
        if start_m(Role::Spinner).is_err() {
            SLEEP.give_back();
            poller::run_without_new_thread();
            self.retry = Some(Instant::now() + RETRY);
        }
    }
}

/// What a new M is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// To look for work: it carries a spinner's token.
    Spinner,
    /// To be idle.
    Spare,
}

fn start_m(role: Role) -> std::io::Result<()> {
    let max = MAX_THREADS.load(Ordering::Relaxed);
    if m::all().filter(|m| m.alive.load(Ordering::Relaxed)).count() >= max {
        if !LIMIT_REPORTED.swap(true, Ordering::Relaxed) {
            stderr::write(&format!(
                "gort: {max} threads run goroutines or are blocked in system calls, and no more are allowed \
                 (runtime::Config::max_threads): goroutines may have to wait for one of them\n"
            ));
        }
        return Err(std::io::ErrorKind::WouldBlock.into());
    }
    let m = m::make();
    let started = thread::start(&format!("gort-m{}", m.id), G0_STACK, move || main(m, role));
    if started.is_err() {
        m.alive.store(false, Ordering::Release);
    }
    started
}

/// The first function of an M's thread.
fn main(m: &'static M, role: Role) {
    m.adopt_thread(thread::tid(), section::current_slot());
    m.in_runtime.set(1);
    let _signal_stack = signal::prepare_thread();
    if role == Role::Spinner {
        let p = SLEEP.p_for_spinner(find::take_idle_p, find::work_anywhere);
        m.set_p(p);
        m.spinning.set(p.is_some());
    }
    schedule::run(m);
    // Release: the next thread that takes this M sees it as we left it.
    m.alive.store(false, Ordering::Release);
}
