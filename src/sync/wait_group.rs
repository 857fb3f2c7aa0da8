//! [`WaitGroup`]: waits until a number of jobs are done.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::raw::wait_group::RawWaitGroup;
use super::raw::waitq::Queue;
use crate::base::atomic::AtomicU64;
use crate::base::lock::Lock;
use crate::sched::park::clock;
use crate::sched::word::status::WaitReason;

/// Go's wait group: `add` counts up, `done` counts down, `wait` waits for zero.
///
/// A clone is another handle to the same counter, for goroutines that outlive the caller; cloning does not
/// change the count. As in Go, the first `add` of a round must come before the `wait`. A group can be reused
/// for another round after all waiters have returned from `wait`.
///
/// ```
/// use gort::sync::WaitGroup;
/// let group = WaitGroup::new();
/// for _ in 0..3 {
///     group.add(1);
///     let group = group.clone();
///     std::thread::spawn(move || group.done());
/// }
/// group.wait();
/// ```
#[derive(Clone)]
pub struct WaitGroup {
    raw: Arc<RawWaitGroup>,
}

impl WaitGroup {
    /// A group with count zero.
    #[must_use]
    pub fn new() -> WaitGroup {
        WaitGroup { raw: Arc::new(RawWaitGroup { state: AtomicU64::new(0), queue: Lock::new(Queue::new()) }) }
    }

    /// Adds `n` to the count.
    ///
    /// # Panics
    /// If the count is zero and the waiters of the last round are still being woken: it would be unclear
    /// which round they wait for.
    pub fn add(&self, n: usize) {
        self.raw.add(n);
    }

    /// Subtracts one from the count.
    ///
    /// # Panics
    /// If the count is zero already.
    pub fn done(&self) {
        self.raw.done();
    }

    /// Waits until the count is zero.
    pub fn wait(&self) {
        self.wait_as(WaitReason::WaitGroup, None);
    }

    /// Waits until the count is zero, but no longer than the timeout, which may be `Duration::MAX`. Returns
    /// whether the count was zero.
    #[must_use = "the group may not be done"]
    pub fn wait_for(&self, timeout: Duration) -> bool {
        self.wait_as(WaitReason::WaitGroup, clock::after(timeout))
    }

    /// Waits until the count is zero, but not beyond the deadline. Returns whether the count was zero.
    #[must_use = "the group may not be done"]
    pub fn wait_until(&self, deadline: Instant) -> bool {
        self.wait_as(WaitReason::WaitGroup, Some(deadline))
    }

    /// Like `wait`, with a deadline and the wait reason that reports print.
    pub(super) fn wait_as(&self, reason: WaitReason, deadline: Option<Instant>) -> bool {
        self.raw.wait(reason, deadline)
    }

    /// Adds one to the count. Dropping the result subtracts it again, also during a panic, and also if the
    /// closure that owns the result never runs.
    pub(super) fn enter(&self) -> Entered {
        self.add(1);
        Entered { group: self.clone() }
    }

    #[cfg(test)]
    pub(super) fn raw(&self) -> &RawWaitGroup {
        &self.raw
    }
}

impl Default for WaitGroup {
    fn default() -> WaitGroup {
        WaitGroup::new()
    }
}

// As for std's primitives: a panic never leaves it half-changed.
impl RefUnwindSafe for WaitGroup {}
impl UnwindSafe for WaitGroup {}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup").field("count", &self.raw.count()).finish()
    }
}

/// One unit of the count. Dropping it calls `done`.
pub(super) struct Entered {
    group: WaitGroup,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.group.done();
    }
}
