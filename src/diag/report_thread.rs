//! Runs a report on a thread of its own: looking up function names needs a larger stack than the runtime's
//! service threads have.

use crate::sys::thread;

/// Size of its stack (bytes).
const STACK: usize = 4 << 20;

/// Runs `report` on a new thread, or on the calling thread if none can be started.
pub(super) fn run(report: fn()) {
    if thread::start("gort-report", STACK, report).is_err() {
        report();
    }
}
