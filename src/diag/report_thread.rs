//! A thread for a report that looks up names: that needs a larger stack than the runtime's own threads have.

use crate::sys::thread;

/// Bytes of its stack.
const STACK: usize = 4 << 20;

/// Runs `report` on a thread of its own, or right here if there is none to be had.
pub(super) fn run(report: fn()) {
    if thread::start("gort-report", STACK, report).is_err() {
        report();
    }
}
