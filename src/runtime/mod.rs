//! The runtime itself: how many goroutines run at once, on which threads, and what they do.

mod config;
mod deny_leaks;
mod leaked;
mod platform;
mod processors;
mod stats;

use crate::diag::blocking_calls;
use crate::future::crew;
use crate::goroutine::deferred::service_goroutines;
use crate::sched::block::lock_os_thread as binding;
use crate::sched::machine::SCHED;
use crate::sched::{boot, gomaxprocs};
use std::sync::atomic::Ordering;

pub use crate::diag::blocking_calls::BlockingCall;
pub use crate::diag::deadlock::OnDeadlock;
pub use crate::diag::dump::{Dump, GoroutineTrace, dump};
pub use crate::diag::stall::{Stall, StallKind};
pub use config::{AlreadyStarted, Config};
#[doc(hidden)]
pub use deny_leaks::__run_test_denying_leaks;
pub use leaked::leaked;
pub use platform::{Finding, Grade, Platform, platform};
#[cfg(feature = "debug")]
pub(crate) use processors::processor;
pub use processors::{Processor, ProcessorState, processors};
#[cfg(feature = "debug")]
pub(crate) use stats::counters;
pub use stats::{CpuTime, Goroutines, Histogram, Stacks, Stats, Threads, Waits, record_waits, stats};

/// The 16 longest blocking calls of goroutines that were not marked by [`blocking`](crate::blocking), the
/// longest first; calls that still last are among them. Each has the stack of its goroutine, which was
/// captured while the goroutine was in the call.
///
/// Such calls are harmless to others: after some 100 µs the runtime notices them and takes the processor
/// away. But each takes a thread, and calls that many goroutines make at once are better marked. Calls
/// shorter than 10 ms are left out, and so are those during which the goroutine was on a stack that is not
/// its own.
///
/// ```
/// for call in gort::runtime::longest_blocking_calls() {
///     println!("{call}");
/// }
/// ```
#[must_use]
pub fn longest_blocking_calls() -> Vec<BlockingCall> {
    blocking_calls::longest()
}

/// GOMAXPROCS: how many goroutines run at the same time.
///
/// ```
/// assert!(gort::runtime::max_procs() >= 1);
/// ```
pub fn max_procs() -> usize {
    boot::ensure();
    SCHED.procs()
}

/// Sets GOMAXPROCS and returns the former value. More than 1024 counts as 1024, and 0 changes nothing, as in
/// Go.
///
/// When it returns, at most `n` goroutines run at once.
///
/// ```
/// let before = gort::runtime::set_max_procs(2);
/// assert_eq!(gort::runtime::set_max_procs(before), 2);
/// ```
pub fn set_max_procs(n: usize) -> usize {
    if n == 0 {
        return max_procs();
    }
    boot::ensure();
    gomaxprocs::choose();
    gomaxprocs::set(n)
}

/// How many goroutines exist now: spawned and not yet ended. Idle goroutines of the runtime itself are not
/// counted.
///
/// ```
/// assert_eq!(gort::run(|| gort::runtime::num_goroutines() >= 1), true);
/// ```
pub fn num_goroutines() -> usize {
    living().saturating_sub(service_goroutines() + crew::idle() + SCHED.platform.forks.idle())
}

/// How many goroutines exist now, with those of the runtime itself.
pub(crate) fn living() -> usize {
    let outside = SCHED.platform.created_outside.load(Ordering::Relaxed);
    let (created, ended) = SCHED.all_ps().fold((outside, 0), |(created, ended), p| {
        (created + p.stats.created.get(), ended + p.stats.ended.get())
    });
    created.saturating_sub(ended) as usize
}

/// Binds the calling goroutine to its OS thread, until [`unlock_os_thread`] was called as many times: no
/// other goroutine runs on that thread, and this one runs nowhere else. If the goroutine ends while bound,
/// the thread ends with it. On a thread that is not a goroutine this does nothing. A goroutine that changes
/// its signal mask, scheduling or affinity by libc's functions is bound by that, without this.
///
/// ```
/// gort::run(|| {
///     gort::runtime::lock_os_thread();
///     // ... a C library that wants to be called from one thread ...
///     gort::runtime::unlock_os_thread();
/// });
/// ```
pub fn lock_os_thread() {
    binding::lock();
}

/// Undoes one [`lock_os_thread`]; if there was none, does nothing.
pub fn unlock_os_thread() {
    binding::unlock();
}

/// [`lock_os_thread`] for as long as the guard lives.
///
/// ```
/// gort::run(|| {
///     let _bound = gort::runtime::os_thread_guard();
/// });
/// ```
#[must_use = "the goroutine is bound as long as the guard lives"]
pub fn os_thread_guard() -> OsThreadGuard {
    lock_os_thread();
    OsThreadGuard { _not_send: std::marker::PhantomData }
}

/// Keeps the goroutine bound to its thread. See [`os_thread_guard`].
#[derive(Debug)]
pub struct OsThreadGuard {
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Drop for OsThreadGuard {
    fn drop(&mut self) {
        unlock_os_thread();
    }
}
