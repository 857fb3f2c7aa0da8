//! The housekeeper: a thread without a P for work that an M with a P must not do, above all starting Ms.
//! Starting a thread allocates, and an M that holds a P must not wait for the allocator: the goroutine that
//! holds the allocator's lock may be waiting for that very P.
//!
//! At most one start of a spinning M is under way. It carries a token (it counts as a spinner in the idle
//! protocol), so no waker asks for another one meanwhile. And the new M looks at all queues before it gives
//! the token up, so the request cannot be lost.
//!
//! It also does work that is not urgent. About once a second while goroutines run, and twice more after they
//! stopped, it shrinks stacks (`shrink.rs`) and checks whether the CPU quota changed. And it serves reports
//! (`Hooks::housekeep`).

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::shrink::Shrinker;
use crate::sched::idle::poll_wait;
use crate::sched::idle::start_m::wake_housekeeper;
use crate::sched::machine::{SCHED, hooks};
use crate::sched::run::schedule;
use crate::sched::types::current::current_slot;
use crate::sched::types::m::M;
use crate::sys::clock::nanotime;
use crate::sys::signal::SignalStack;
use crate::sys::{signal, stderr, thread};
use crate::tls::loaded;

/// The time between two passes.
const PASS_EVERY: Duration = Duration::from_secs(1);

/// Shrinking stacks takes at most one part in this many (1/50) of the housekeeper's time: to look at a
/// million goroutines takes a tenth of a second.
const TRIM_SHARE: u32 = 50;

/// Size (bytes) of g0, the stack of an M: the scheduler's frames are few and small.
const G0_STACK: usize = 128 << 10;
/// When the kernel refuses a thread, the housekeeper tries again after this long, as long as work waits, or
/// no M polls for timers or I/O.
const RETRY: Duration = Duration::from_millis(10);

/// Called by sysmon: goroutines have run, so a pass may find something to do.
pub(crate) fn request_pass() {
    if !SCHED.platform.housekeeper.pass_wanted.swap(true, Ordering::Relaxed) {
        wake_housekeeper();
    }
}

/// The housekeeper's thread. It calls `once_a_second` at each pass.
pub(crate) fn run(mut once_a_second: impl FnMut()) {
    let own = &SCHED.platform.housekeeper;
    own.tid.store(thread::tid(), Ordering::Relaxed);
    let mut starter = Starter { retry: None };
    let mut passes = Passes { next: None, next_trim: Instant::now(), shrinker: Shrinker::new() };
    let mut report: Option<Instant> = None;
    loop {
        own.wake.wait_until(starter.retry.into_iter().chain(passes.next).chain(report).min());
        starter.serve();
        report = (hooks().housekeep)();
        passes.serve(&mut starter, &mut once_a_second);
    }
}

/// What is done about once a second.
struct Passes {
    next: Option<Instant>,
    next_trim: Instant,
    shrinker: Shrinker,
}

impl Passes {
    fn serve(&mut self, starter: &mut Starter, once_a_second: &mut impl FnMut()) {
        let wanted = &SCHED.platform.housekeeper.pass_wanted;
        if self.next.is_none() && wanted.load(Ordering::Relaxed) {
            self.next = Some(Instant::now() + PASS_EVERY);
        }
        if self.next.is_none_or(|at| at > Instant::now()) {
            return;
        }
        let start = Instant::now();
        if start >= self.next_trim {
            // One more pass if goroutines ran since the last one: a goroutine that parked meanwhile is shrunk
            // only then.
            self.next = wanted.swap(false, Ordering::Relaxed).then(|| start + PASS_EVERY);
            // With many goroutines this takes a while, so requests for Ms are served in between.
            self.shrinker.pass(|| starter.serve());
            self.next_trim = start + start.elapsed() * TRIM_SHARE;
        } else {
            self.next = Some(start + PASS_EVERY);
            SCHED.platform.coarse_clock.store(nanotime(), Ordering::Relaxed);
        }
        once_a_second();
        loaded::notice();
    }
}

/// Starts Ms when they are wanted.
struct Starter {
    /// The kernel refused a thread: when to try again.
    retry: Option<Instant>,
}

impl Starter {
    fn serve(&mut self) {
        let own = &SCHED.platform.housekeeper;
        if own.start_spinning_m.swap(false, Ordering::Acquire) {
            self.start_spinning_m();
        } else if self.retry.is_some_and(|at| at <= Instant::now()) {
            self.retry = None;
            // An M may have become idle meanwhile; if not, `wake_p` asks for a new one again.
            if SCHED.idle.work_waits(|| SCHED.work_anywhere()) {
                SCHED.wake_p();
            } else {
                poll_wait::ensure();
            }
        }
        start_spare_ms(own.spare_ms_wanted.swap(0, Ordering::Acquire));
    }

    /// Starts an M with a token. If that fails, gives the token up: the existing Ms carry on, bound ones get
    /// idle Ps if their goroutines are runnable, and the housekeeper looks at the queues later (S2).
    fn start_spinning_m(&mut self) {
        self.retry = None;
        if start_m(Role::Spinner).is_err() {
            SCHED.idle.release_token();
            poll_wait::run_without_new_thread();
            SCHED.hand_idle_ps_to_bound();
            self.retry = Some(Instant::now() + RETRY);
        }
    }
}

/// Starts Ms until `wanted` are idle. Without them the P of the next blocked goroutine waits for an M, and no
/// goroutine is stopped by signal; so a failure is not reported.
fn start_spare_ms(wanted: u32) {
    let starting = &SCHED.platform.housekeeper.spare_ms_starting;
    while SCHED.lock().idle_m_count() + starting.load(Ordering::Relaxed) < wanted && !limit_reached() {
        starting.fetch_add(1, Ordering::Relaxed);
        if start_m(Role::Spare).is_err() {
            starting.fetch_sub(1, Ordering::Relaxed);
            return;
        }
    }
}

/// What a new M is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// To look for work: it carries a token.
    Spinner,
    /// To be idle.
    Spare,
}

/// Whether as many threads run goroutines as the program allows.
fn limit_reached() -> bool {
    SCHED.platform.live_count() >= SCHED.platform.housekeeper.max_threads.load(Ordering::Relaxed)
}

fn start_m(role: Role) -> io::Result<()> {
    let own = &SCHED.platform.housekeeper;
    if limit_reached() {
        if !own.limit_reported.swap(true, Ordering::Relaxed) {
            let max = own.max_threads.load(Ordering::Relaxed);
            stderr::write(&format!(
                "gort: {max} threads run goroutines or are blocked in system calls, and no more are allowed \
                 (runtime::Config::max_threads): goroutines may have to wait for one of them\n"
            ));
        }
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let m = SCHED.platform.make_m();
    let started = thread::start(&format!("gort-m{}", m.id), G0_STACK, move || main(m, role));
    if started.is_err() {
        SCHED.platform.m_ended(m);
    }
    started
}

/// The first function of an M's thread.
fn main(m: &'static M, role: Role) {
    m.adopt_thread(thread::tid(), current_slot());
    let signal_stack = signal::prepare_thread();
    m.signals.set(signal_stack.as_ref().map(SignalStack::of_thread));
    match role {
        Role::Spinner => {
            let p = SCHED.idle.find_p_for_token(|| SCHED.take_idle_p(), || SCHED.work_anywhere());
            m.set_p(p);
            m.spinning.set(p.is_some());
        }
        Role::Spare => {
            SCHED.platform.housekeeper.spare_ms_starting.fetch_sub(1, Ordering::Relaxed);
        }
    }
    schedule::run(m);
    m.signals.set(None);
    SCHED.platform.m_ended(m);
}
