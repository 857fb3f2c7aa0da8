//! SIGQUIT (Ctrl-\ on a terminal), as in Go: prints where every goroutine is, and ends the process with
//! status 2.
//!
//! The handler only wakes the housekeeper, which starts the report. A second SIGQUIT has the default action,
//! in case the first one could not be served.

use std::ffi::c_void;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use super::dump::Dump;
use super::report_thread;
use crate::sched::idle::start_m::wake_housekeeper;
use crate::sys::signal::{self, Previous, SIGQUIT, SigInfo};
use crate::sys::{process, stderr};
use crate::trace;

static PREVIOUS: Previous = Previous::new();
static ASKED: AtomicBool = AtomicBool::new(false);

/// Called once, at start-up. Does nothing if the program handles the signal itself. That the signal is
/// ignored does not count, as in Go: the background jobs of a shell inherit that, and nobody could look into
/// them.
pub(crate) fn init() {
    if signal::has_no_handler(SIGQUIT) {
        signal::install(SIGQUIT, on_quit, &PREVIOUS);
    }
}

extern "C" fn on_quit(_number: i32, _info: *mut SigInfo, _context: *mut c_void) {
    signal::reset_to_default(SIGQUIT);
    ASKED.store(true, Ordering::Release);
    wake_housekeeper();
}

/// Called on the housekeeper: if the signal came, prints the report and ends the process.
pub(super) fn serve() {
    if ASKED.load(Ordering::Relaxed) && ASKED.swap(false, Ordering::Acquire) {
        report_thread::run(print_and_end);
    }
}

fn print_and_end() {
    let _nobody_listens = write!(stderr::Pieces::new(), "SIGQUIT: quit\n\n{}", Dump::take(true));
    trace::end_without_exit_handlers();
    process::exit_now(2);
}
