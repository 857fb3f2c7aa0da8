//! The one handler of the runtime's signal (SIGURG), and its clients: stopping all threads, asking where a
//! goroutine is (both reports, through `hooks.rs`), and preemption. What is not ours is passed on.
//!
//! What is to be done does not depend on the signal's value: of several signals that come before the first is
//! handled the kernel keeps one, and it may be anybody's. So each client looks whether it was asked.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::preempt;
use crate::sched::machine::{SCHED, hooks};
use crate::sys::signal::{self, SIGURG, SigInfo};
use crate::sys::thread;

/// The value of our signals.
const OURS: usize = 0x676f_7274;

/// Once, at start-up.
pub(crate) fn init(enabled: bool, max_stopped: Option<usize>) {
    let preempt = &SCHED.platform.preempt;
    if let Some(max) = max_stopped {
        preempt.max_stopped.store(u32::try_from(max).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
    preempt.enabled.store(enabled, Ordering::Relaxed);
    if enabled {
        install();
    }
}

/// Whether signals are to be used.
pub(crate) fn is_enabled() -> bool {
    SCHED.platform.preempt.enabled.load(Ordering::Relaxed)
}

/// Makes sure that our handler gets the signals. False: signals are not to be used.
pub(crate) fn can_signal() -> bool {
    let enabled = is_enabled();
    if enabled {
        install();
    }
    enabled
}

/// Sends our signal to a thread. False: it was not sent.
pub(crate) fn send(tid: u32) -> bool {
    install();
    send_installed(tid)
}

/// As [`send`], after [`can_signal`]: makes one system call.
pub(crate) fn send_installed(tid: u32) -> bool {
    signal::send(tid, SIGURG, OURS)
}

/// The program may have set a handler of its own after us: then ours goes before it.
fn install() {
    signal::install(SIGURG, on_signal, &SCHED.platform.preempt.previous);
}

extern "C" fn on_signal(number: i32, info: *mut SigInfo, context: *mut c_void) {
    (hooks().signal_on_any_thread)(context);
    if let Some(m) = SCHED.platform.m_of_thread(thread::tid()) {
        (hooks().signal_on_m)(m, context);
        preempt::stop_if_asked(m, context);
    }
    if signal::sent_value(info) == Some(OURS) {
        // sysmon and the reports look first whether the thread sleeps, but it may have just begun to.
        // SAFETY: the kernel passed the context.
        unsafe { signal::restart_call(context, true) };
    } else {
        pass_on(number, info, context);
    }
}

/// Gives a signal that is not ours to the handler that was there before ours. That one may have found ours
/// when it was installed, and pass the signal on, too: back to us. Then it has been passed on. (If another
/// thread did so in between, that is noticed one round later.)
fn pass_on(number: i32, info: *mut SigInfo, context: *mut c_void) {
    let preempt = &SCHED.platform.preempt;
    let tid = thread::tid();
    if preempt.passing.swap(tid, Ordering::Relaxed) != tid {
        preempt.previous.call(number, info, context);
        preempt.passing.store(0, Ordering::Relaxed);
    }
}
