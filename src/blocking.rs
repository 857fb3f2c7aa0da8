//! [`blocking`] and [`checkpoint`]: how a goroutine tells the runtime that it blocks its thread, or that it
//! can yield.

use crate::sched::block::marked_call;
use crate::sched::monitor::preempt;

/// Runs `f`, which blocks its OS thread, and lets other goroutines use its processor meanwhile.
///
/// Nothing breaks without this: when a goroutine blocks in an unmarked system call, the runtime notices
/// within a fraction of a millisecond. Marking a call costs two atomic operations, and other goroutines run
/// after 20 µs. Outside of goroutines this only calls `f`.
///
/// ```
/// let text = gort::run(|| gort::blocking(|| std::fs::read_to_string("/proc/self/comm")));
/// assert!(text.is_ok());
/// ```
pub fn blocking<F: FnOnce() -> T, T>(f: F) -> T {
    marked_call::blocking(f)
}

/// Lets other goroutines run if this goroutine's time slice is over. For long loops where preemption by
/// signals is disabled. Costs a few nanoseconds.
///
/// ```
/// gort::run(|| {
///     for _ in 0..1000 {
///         gort::checkpoint();
///     }
/// });
/// ```
pub fn checkpoint() {
    preempt::checkpoint();
}
