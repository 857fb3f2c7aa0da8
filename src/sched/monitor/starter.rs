//! The starter: a thread without a P that starts Ms. An M that holds a P must not do that itself, because
//! libc allocates for a thread: the goroutine that holds malloc's lock may be waiting for that very P.
//!
//! The starter itself must never wait for a goroutine that has no thread, because that goroutine may be
//! waiting for the M that is to be started. Such a goroutine may hold any lock but those of the C library
//! (K1 in `preempt.rs`). So the starter takes no others: neither those of a global allocator nor the
//! loader's.
//!
//! At most one start of a spinning M is under way. It carries a token (it counts as a spinner in the idle
//! protocol), so no waker asks for another one meanwhile. And the new M looks at all queues before it gives
//! the token up, so the request cannot be lost.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{io, ptr};

use crate::sched::idle::poll_wait;
use crate::sched::machine::SCHED;
use crate::sched::run::schedule;
use crate::sched::types::current::current_slot;
use crate::sched::types::m::M;
use crate::sys::clock::nanotime;
use crate::sys::signal::SignalStack;
use crate::sys::{signal, stderr, thread};

/// Size (bytes) of g0, the stack of an M: the scheduler's frames are few and small.
const G0_STACK: usize = 128 << 10;
/// When the kernel refuses a thread, the starter tries again after this long, as long as work waits, or
/// no M polls for timers or I/O.
const RETRY: Duration = Duration::from_millis(10);

/// The starter's thread.
pub(crate) fn run() {
    let own = &SCHED.platform.starter;
    own.tid.store(thread::tid(), Ordering::Relaxed);
    let mut starter = Starter { retry: None };
    loop {
        own.wake.wait_until(starter.retry);
        starter.serve();
    }
}

/// Starts Ms when they are wanted.
struct Starter {
    /// The kernel refused a thread: when to try again.
    retry: Option<Instant>,
}

impl Starter {
    fn serve(&mut self) {
        let own = &SCHED.platform.starter;
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
    /// idle Ps if their goroutines are runnable, and the starter looks at the queues later (S2).
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
    let starting = &SCHED.platform.starter.spare_ms_starting;
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
    SCHED.platform.live_count() >= SCHED.platform.starter.max_threads.load(Ordering::Relaxed)
}

fn start_m(role: Role) -> io::Result<()> {
    let own = &SCHED.platform.starter;
    if limit_reached() {
        if !own.limit_reported.swap(true, Ordering::Relaxed) {
            let max = own.max_threads.load(Ordering::Relaxed);
            stderr::write_short(format_args!(
                "gort: {max} threads run goroutines or are blocked in system calls, and no more are allowed \
                 (runtime::Config::max_threads): goroutines may have to wait for one of them\n"
            ));
        }
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let m = SCHED.platform.make_m()?;
    let main = if role == Role::Spinner { spinner } else { spare };
    let started = thread::start_without_allocator(G0_STACK, main, ptr::from_ref(m) as usize);
    if started.is_err() {
        SCHED.platform.m_ended(m);
    }
    started
}

/// The first functions of an M's thread.
extern "C" fn spinner(m: usize) {
    // SAFETY: `start_m` passed the M; Ms are leaked.
    main(unsafe { &*(m as *const M) }, Role::Spinner);
}

extern "C" fn spare(m: usize) {
    // SAFETY: as above.
    main(unsafe { &*(m as *const M) }, Role::Spare);
}

fn main(m: &'static M, role: Role) {
    thread::set_name(format_args!("gort-m{}", m.id));
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
            SCHED.platform.starter.spare_ms_starting.fetch_sub(1, Ordering::Relaxed);
        }
    }
    schedule::run(m);
    if let Some(clock) = thread::cpu_nanos(m.tid()) {
        m.cpu_time.thread_ends(clock, nanotime());
    }
    m.signals.set(None);
    SCHED.platform.m_ended(m);
}
