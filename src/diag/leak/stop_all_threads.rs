//! Stopping every other thread of the process for a moment, with all its registers in memory.
//!
//! Each thread gets the preemption signal; its handler reports that the thread has stopped and waits until
//! all may go on. The kernel has left the registers of the interrupted code on the handler's stack. A thread
//! that had not stopped yet may start new threads meanwhile, so the caller lists all threads again until
//! every one has stopped.
//!
//! The signal must not make a system call fail. So a thread gets no signal while it is in a call that neither
//! the kernel nor `restart::restart_call` would restart; then no thread is stopped.
//!
//! While the others are stopped, the caller must not allocate or take any lock: a stopped thread may hold it.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::arch::SignalFrame;
use crate::sched::machine::SCHED;
use crate::sched::monitor::signal_handler;
use crate::sys::inspect::{self, InKernel};
use crate::sys::{futex, restart, signal, thread};

/// Odd while all threads have to stop. It only grows.
static EPOCH: AtomicU32 = AtomicU32::new(0);

/// The threads that have stopped, and the threads to which the signal was sent.
static STOPPED: Tids = Tids::new();
static SIGNALLED: Tids = Tids::new();

/// The ids of the threads that have stopped, in the order in which they did.
static WHO: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];
/// The contexts that the kernel passed to their handlers, in the same order.
static CONTEXTS: [AtomicPtr<c_void>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
/// How many have stopped.
static CAME: AtomicUsize = AtomicUsize::new(0);

/// At most this many threads can be stopped.
const MOST: usize = 1 << 14;

/// If not all threads have stopped within this time, `stop` gives up.
const COME_WITHIN: Duration = Duration::from_millis(500);

/// A set of thread ids.
struct Tids([AtomicU32; MOST]);

impl Tids {
    const fn new() -> Tids {
        Tids([const { AtomicU32::new(0) }; MOST])
    }

    fn clear(&self) {
        self.0.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    }

    /// The places where `tid` may be, in the order in which to try them.
    fn places(&self, tid: u32) -> impl Iterator<Item = &AtomicU32> {
        (0..self.0.len()).map(move |i| &self.0[(tid as usize + i) % self.0.len()])
    }

    /// Adds `tid`, unless there is no room left.
    fn add(&self, tid: u32) {
        for place in self.places(tid) {
            // Release pairs with the Acquire in `has`, which then sees what the thread did before.
            match place.compare_exchange(0, tid, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) if other == tid => return,
                Err(_) => {}
            }
        }
    }

    fn has(&self, tid: u32) -> bool {
        let found = self.places(tid).map(|place| place.load(Ordering::Acquire));
        found.take_while(|&found| found != 0).any(|found| found == tid)
    }
}

/// Called in the signal handler with the context from the kernel: waits here if all threads have to stop.
pub(crate) fn wait_if_asked(context: *mut c_void) {
    loop {
        // Acquire pairs with `stop`, which has cleared the sets before, and with `Stopped::drop`.
        let epoch = EPOCH.load(Ordering::Acquire);
        if epoch.is_multiple_of(2) {
            return;
        }
        let place = CAME.fetch_add(1, Ordering::Relaxed);
        if place < MOST {
            let tid = thread::tid();
            WHO[place].store(tid, Ordering::Relaxed);
            CONTEXTS[place].store(context, Ordering::Relaxed);
            STOPPED.add(tid);
        }
        while EPOCH.load(Ordering::Acquire) == epoch {
            futex::wait(&EPOCH, epoch, None);
        }
    }
}

/// While it lives, no other thread runs.
pub(crate) struct Stopped(());

/// Stops all threads but the caller's, which must not be a goroutine. `None`: one of them cannot be stopped.
/// Only one caller at a time.
pub(crate) fn stop() -> Option<Stopped> {
    let own = thread::tid();
    let mut possible = signal_handler::can_signal();
    let listed = inspect::threads(|tid| possible &= tid == own || may_be_interrupted(tid));
    if !possible || !listed {
        return None;
    }
    STOPPED.clear();
    SIGNALLED.clear();
    CAME.store(0, Ordering::Relaxed);
    EPOCH.fetch_add(1, Ordering::Release);
    let stopped = Stopped(());
    let start = Instant::now();
    let mut complete = 0;
    // Two lists in a row must contain stopped threads only: then all had stopped before the second list was
    // made.
    while complete < 2 {
        let (mut missing, mut refused) = (false, false);
        let listed = inspect::threads(|tid| {
            if tid == own || STOPPED.has(tid) {
                return;
            }
            missing = true;
            if !SIGNALLED.has(tid) {
                let may = may_be_interrupted(tid);
                refused |= !may;
                if may && signal_handler::send_installed(tid) {
                    SIGNALLED.add(tid);
                }
            }
        });
        if !listed || start.elapsed() > COME_WITHIN || (refused && start.elapsed() > COME_WITHIN / 50) {
            return None;
        }
        complete = if missing { 0 } else { complete + 1 };
        if missing {
            futex::wait(&EPOCH, EPOCH.load(Ordering::Relaxed), Some(Duration::from_micros(50)));
        }
    }
    Some(stopped)
}

impl Stopped {
    /// Every thread that was stopped, with the registers of the code that the signal interrupted and the
    /// stack that its handler runs on.
    pub(crate) fn threads(&self) -> impl Iterator<Item = (u32, SignalFrame, Option<Range<usize>>)> {
        let contexts = CONTEXTS[..CAME.load(Ordering::Relaxed).min(MOST)].iter();
        WHO.iter().zip(contexts).map(|(tid, context)| {
            let context = context.load(Ordering::Relaxed);
            // SAFETY: the handler that got this context does not return while `self` lives.
            let (frame, stack) = unsafe { (SignalFrame::new(context), signal::alternate_stack(context)) };
            (tid.load(Ordering::Relaxed), frame, stack)
        })
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Release: our reads come before what the other threads do now.
        EPOCH.fetch_add(1, Ordering::Release);
        futex::wake(&EPOCH, u32::MAX >> 1);
    }
}

/// Whether a signal does not disturb what the thread does.
fn may_be_interrupted(tid: u32) -> bool {
    let m = SCHED.platform.m_of_thread(tid);
    if SCHED.platform.is_service_thread(tid) || m.is_some_and(|m| m.current().is_none()) {
        return true; // their waits are loops, so an early wake-up does no harm
    }
    // A thread that waits in the handler of our signal does not get a second one.
    if m.is_some_and(|m| !m.interrupted.load(Ordering::Relaxed).is_null()) {
        return false;
    }
    match inspect::in_kernel(tid) {
        InKernel::No => true,
        InKernel::Call { number, end, .. } => restart::is_restarted(number, end),
        InKernel::Unknown => false,
    }
}
