//! SIGQUIT (Ctrl-\ on a terminal), as in Go: prints where every goroutine is, and ends the process with status 2.
//!
//! The handler only wakes the steward. A second SIGQUIT has the default action, in case the first one could not be served.

use std::ffi::c_void;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use super::steward;
use crate::runtime::Dump;
use crate::sys::signal::{self, Previous};
use crate::sys::{stderr, thread};

static PREVIOUS: Previous = Previous::new();
static ASKED: AtomicBool = AtomicBool::new(false);

/// Once, at start-up. A program that handles or ignores the signal itself keeps it.
pub(crate) fn init() {
    if signal::is_default(libc::SIGQUIT) {
        signal::install(libc::SIGQUIT, on_quit, &PREVIOUS);
    }
}

extern "C" fn on_quit(_number: i32, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    signal::reset_to_default(libc::SIGQUIT);
    ASKED.store(true, Ordering::Release);
    steward::wake();
}

/// On the steward: whether the signal came.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed) && ASKED.swap(false, Ordering::Acquire)
}

/// Prints and ends the process, on a thread with a stack that is large enough to look up names.
pub(crate) fn serve() {
    if thread::start("gort-report", 4 << 20, print_and_end).is_err() {
        print_and_end();
    }
}

fn print_and_end() {
    let _nobody_listens = write!(stderr::Pieces::new(), "SIGQUIT: quit\n\n{}", Dump::take(true));
    // SAFETY: ends the process at once: exit handlers may not run while other threads do.
    unsafe { libc::_exit(2) }
}
