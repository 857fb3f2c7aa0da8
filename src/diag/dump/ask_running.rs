//! Asking a running goroutine where it is.
//!
//! There is one request at a time. The report stores which M it asks and sends the preemption signal; the
//! handler, on the goroutine's thread, walks the frames of the code that it interrupted, and answers.
//!
//! | state    | meaning                          | who owns the answer |
//! |----------|----------------------------------|---------------------|
//! | FREE     | no request                       | the report          |
//! | ASKED    | the signal is on its way         | the report          |
//! | TAKEN    | the handler walks                | the handler         |
//! | ANSWERED | done                             | the report          |
//!
//! The report gives up after a while with ASKED → FREE; a handler that runs later finds no request. The
//! handler does not answer for code inside the runtime: there the stack may be about to change.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::unwind::{self, Frames};
use crate::arch::SignalFrame;
use crate::sched::account::labels::Labels;
use crate::sched::monitor::signal_handler;
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sys::thread;

const FREE: u32 = 0;
const ASKED: u32 = 1;
const TAKEN: u32 = 2;
const ANSWERED: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(FREE);
static WHO: AtomicPtr<M> = AtomicPtr::new(ptr::null_mut());
static ANSWER: Cell = Cell(UnsafeCell::new(Answer {
    goroutine: None,
    frames: Frames::new(),
    name: None,
    labels: Labels::NONE,
    cpu_time: 0,
}));

/// How long a signal may take to arrive.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_millis(20);

struct Cell(UnsafeCell<Answer>);
// SAFETY: the state says which side owns it.
unsafe impl Sync for Cell {}

/// Where a goroutine was when the signal interrupted it.
pub(crate) struct Answer {
    pub(crate) goroutine: Option<&'static G>,
    pub(crate) frames: Frames,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) labels: Labels,
    /// CPU time (ns).
    pub(crate) cpu_time: u64,
}

/// Asks the goroutine that runs on `m`; if its thread sleeps, only if `even_asleep`. `None`: it did not
/// answer `within` this time, or is inside the runtime. One caller at a time.
pub(crate) fn ask(m: &'static M, even_asleep: bool, within: Duration) -> Option<Answer> {
    WHO.store(ptr::from_ref(m).cast_mut(), Ordering::Relaxed);
    // Release: the handler sees `WHO`.
    STATE.store(ASKED, Ordering::Release);
    let sent = send_question(m, even_asleep);
    let start = Instant::now();
    while STATE.load(Ordering::Acquire) != ANSWERED {
        let late = !sent || start.elapsed() > within;
        if late && STATE.compare_exchange(ASKED, FREE, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return None;
        }
        std::thread::yield_now();
    }
    // SAFETY: the state is ANSWERED, and we are the only one that asks.
    let answer = unsafe { &mut *ANSWER.0.get() };
    let taken = Answer {
        goroutine: answer.goroutine.take(),
        frames: answer.frames,
        name: answer.name.take(),
        labels: std::mem::take(&mut answer.labels),
        cpu_time: answer.cpu_time,
    };
    STATE.store(FREE, Ordering::Relaxed);
    taken.goroutine.is_some().then_some(taken)
}

/// Called in the signal handler, on the thread of `m`: answers if `m` was asked.
pub(crate) fn answer(m: &'static M, context: *mut c_void) {
    if !ptr::eq(WHO.load(Ordering::Relaxed), m)
        // Acquire pairs with `ask`.
        || STATE.compare_exchange(ASKED, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        return;
    }
    // SAFETY: the state is TAKEN, so it is ours.
    let answer = unsafe { &mut *ANSWER.0.get() };
    answer.goroutine = m.in_user_code();
    if let Some(g) = answer.goroutine {
        // SAFETY: the kernel passed the context. The code is stopped: we are its signal handler. The
        // goroutine has not ended, so its info is there.
        unsafe {
            let registers = SignalFrame::new(context).registers();
            unwind::stopped(&registers, g.slot.stack(), &mut answer.frames);
            answer.name = g.info().and_then(|info| info.name.clone());
            // (What was there was taken by the report, so this drops no reference.)
            answer.labels = g.labels();
            answer.cpu_time = g.info().map_or(0, |info| info.account.nanos());
        }
    }
    // Release: hands the answer over.
    STATE.store(ANSWERED, Ordering::Release);
}

/// Sends the signal. False: the goroutine cannot be asked.
fn send_question(m: &'static M, even_asleep: bool) -> bool {
    // A thread that sleeps in the kernel is in a system call, which the signal might make fail.
    let asleep = || thread::is_asleep(m.tid()).unwrap_or(true);
    signal_handler::is_enabled() && (even_asleep || !asleep()) && signal_handler::send(m.tid())
}
