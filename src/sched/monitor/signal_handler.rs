//! The handler of the runtime's signal, SIGURG. It serves three clients: the leak search, which stops all
//! threads, and dumps, which ask where a goroutine is (both through `hooks.rs`); and preemption. It passes
//! signals that are not the runtime's on to the program's handler.
//!
//! The signal's value does not say which client sent it: of several signals that arrive before the first is
//! handled, the kernel keeps one. So each client checks a flag of its own.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::preempt;
use crate::arch;
use crate::sched::machine::{SCHED, hooks};
use crate::sys::signal::{self, SIGURG, SigInfo};
use crate::sys::{libc_code, restart, sanitizer, thread};

/// The value that marks a signal as the runtime's: "gort" in ASCII.
const OURS: usize = 0x676f_7274;

/// Called once, at start-up.
pub(crate) fn init(enabled: bool) {
    SCHED.platform.preempt.enabled.store(enabled, Ordering::Relaxed);
    if enabled {
        // Sanitizers and valgrind cannot follow a goroutine that moves in the middle of a function. Where
        // the code of libc is not known, none does.
        if !arch::runs_on_valgrind() && !sanitizer::is_active() {
            libc_code::init();
        }
        install();
        restart::learn(send_installed);
    }
}

/// Whether signals are to be used.
pub(crate) fn is_enabled() -> bool {
    SCHED.platform.preempt.enabled.load(Ordering::Relaxed)
}

/// Makes sure that our handler is installed. False: signals are not to be used.
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

/// Installs our handler. If the program has set a handler of its own since, ours runs before it from now on.
fn install() {
    signal::install(SIGURG, on_signal, &SCHED.platform.preempt.previous);
}

extern "C" fn on_signal(number: i32, info: *mut SigInfo, context: *mut c_void) {
    (hooks().signal_on_any_thread)(context);
    let m = SCHED.platform.m_of_thread(thread::tid());
    if let Some(m) = m {
        (hooks().signal_on_m)(m, context);
    }
    if signal::sent_value(info) == Some(OURS) {
        // The sender checked that the thread does not sleep in a system call, but it may have just begun to.
        // SAFETY: the kernel passed the context.
        unsafe { restart::restart_call(context, true) };
    } else {
        pass_on(number, info, context);
    }
    // Called by the program's handler, to which this very handler passed the signal, it returns there.
    let nested = SCHED.platform.preempt.passing.load(Ordering::Relaxed) == thread::tid();
    if let Some(m) = m.filter(|_| !nested) {
        preempt::stop_if_asked(m, context); // perhaps does not return
    }
}

/// Calls the handler that was there before ours, for a signal that is not ours. If that handler was installed
/// over ours, it may pass the signal on as well, back to us; then this does nothing. (If another thread
/// passes a signal on at the same time, this is noticed one round later.)
fn pass_on(number: i32, info: *mut SigInfo, context: *mut c_void) {
    let preempt = &SCHED.platform.preempt;
    let tid = thread::tid();
    if preempt.passing.swap(tid, Ordering::Relaxed) != tid {
        preempt.previous.call(number, info, context);
        preempt.passing.store(0, Ordering::Relaxed);
    }
}
