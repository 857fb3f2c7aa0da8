//! Telling the runtime what it would otherwise have to find out.

use crate::sched::{preempt, syscall};

/// Runs `f`, which blocks its OS thread, so that other goroutines can use its processor at once.
///
/// Nothing breaks without it: when a goroutine blocks in a system call unmarked, the runtime notices within a fraction
/// of a millisecond. Marked, it costs two atomic operations and others run after 20 µs. Outside of goroutines this
/// only calls `f`.
///
/// ```
/// let text = gort::run(|| gort::blocking(|| std::fs::read_to_string("/proc/self/comm")));
/// assert!(text.is_ok());
/// ```
pub fn blocking<F: FnOnce() -> T, T>(f: F) -> T {
    syscall::blocking(f)
}

/// Lets others run if this goroutine's time slice is over: for long loops where preemption by signals is disabled.
/// Costs a few nanoseconds.
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
