//! The steward: a thread without a P for what a goroutine's M must not do. Starting a thread allocates, and an M
//! that holds a P must not wait for the allocator: the holder of its lock may be waiting for that very P.
//!
//! At most one start is under way. It carries a spinner's token (it counts in `SLEEP`), so while it lasts
//! nobody else asks for one, and the new M looks at all queues before it gives the token up: the request cannot be
//! lost.
//!
//! It also does what has time: about once a second while goroutines run, and once more after they stopped, it trims
//! stacks and looks whether the CPU quota changed.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::global::SLEEP;
use super::m::{self, M};
use super::note::Note;
use super::{find, procs, schedule, section, wake};
use crate::atomic::Ordering;
use crate::stack::trim;
use crate::sys::{signal, thread};

static WAKE: Note = Note::new();
static START_M: AtomicBool = AtomicBool::new(false);
static PASS_WANTED: AtomicBool = AtomicBool::new(false);

const PASS_EVERY: Duration = Duration::from_secs(1);

/// g0 of an M: the scheduler's frames are few and small.
const G0_STACK: usize = 128 << 10;
/// When the kernel refuses a thread, try again after this long, as long as work waits.
const RETRY: Duration = Duration::from_millis(10);

/// Asks for a new M. The caller's token in `SLEEP` passes to it.
pub(crate) fn start_spinning_m() {
    START_M.store(true, Ordering::Release);
    WAKE.set();
}

/// sysmon says that goroutines have run: there may be something to tidy up.
pub(crate) fn request_pass() {
    if !PASS_WANTED.swap(true, Ordering::Relaxed) {
        WAKE.set();
    }
}

/// The steward's thread.
pub(crate) fn run() {
    let mut retry: Option<Instant> = None;
    let mut pass: Option<Instant> = None;
    let mut quota = procs::QuotaFollower::new();
    loop {
        WAKE.wait_until(retry.into_iter().chain(pass).min());
        if pass.is_none() && PASS_WANTED.load(Ordering::Relaxed) {
            pass = Some(Instant::now() + PASS_EVERY);
        }
        if pass.is_some_and(|at| at <= Instant::now()) {
            pass = None;
            PASS_WANTED.store(false, Ordering::Relaxed);
            trim::pass();
            quota.look();
        }
        if START_M.swap(false, Ordering::Acquire) {
            retry = start_m().err().map(|_| Instant::now() + RETRY);
        } else if retry.is_some_and(|at| at <= Instant::now()) {
            retry = None;
            // An M may have become idle meanwhile; if not, this asks us again.
            if SLEEP.work_waits(find::work_anywhere) {
                wake::wake_p();
            }
        }
    }
}

/// Starts an M that spins. If that fails, the token is given up: the Ms that exist carry on, and `run` looks at
/// the queues after `RETRY` (S2).
fn start_m() -> std::io::Result<()> {
    let m = m::make();
    let started = thread::start(&format!("gort-m{}", m.id), G0_STACK, move || main(m));
    if started.is_err() {
        m.alive.store(false, Ordering::Release);
        SLEEP.give_back();
    }
    started
}

/// The first function of an M's thread.
fn main(m: &'static M) {
    m.adopt_thread(thread::tid(), section::current_slot());
    m.in_runtime.set(1);
    let _signal_stack = signal::prepare_thread();
    let p = SLEEP.p_for_spinner(find::take_idle_p, find::work_anywhere);
    m.set_p(p);
    m.spinning.set(p.is_some());
    schedule::run(m);
    // Release: the next thread that takes this M sees it as we left it.
    m.alive.store(false, Ordering::Release);
}
