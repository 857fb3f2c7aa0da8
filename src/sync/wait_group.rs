//! [`WaitGroup`]: wait until a number of things are done.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::deadline;
use super::raw_wait_group::RawWaitGroup;
use super::waitq::Queue;
use crate::atomic::AtomicU64;
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;

/// Go's wait group: `add` counts up, `done` counts down, `wait` waits for zero.
///
/// A clone is another handle to the same counter, for goroutines that outlive the caller; it counts nothing by
/// itself. As in Go, the first `add` of a round must come before the `wait`, and a group can be used for
/// another round when everybody has returned from `wait`.
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

    /// Counts `n` more things to be done.
    ///
    /// # Panics
    /// If the count is zero and somebody who waited for that has not returned yet: to them it would be unclear
    /// what they wait for.
    pub fn add(&self, n: usize) {
        self.raw.add(n);
    }

    /// One thing is done.
    ///
    /// # Panics
    /// If nothing was left to be done.
    pub fn done(&self) {
        self.raw.done();
    }

    /// Waits until the count is zero.
    pub fn wait(&self) {
        self.wait_as(WaitReason::WaitGroup, None);
    }

    /// Waits until the count is zero, but for no longer than the timeout, which may be `Duration::MAX`. Tells
    /// whether it was zero.
    #[must_use = "the group may not be done"]
    pub fn wait_for(&self, timeout: Duration) -> bool {
        self.wait_as(WaitReason::WaitGroup, deadline::after(timeout))
    }

    /// Waits until the count is zero, but not beyond the deadline. Tells whether it was zero.
    #[must_use = "the group may not be done"]
    pub fn wait_until(&self, deadline: Instant) -> bool {
        self.wait_as(WaitReason::WaitGroup, Some(deadline))
    }

    /// `wait`, with a name for the reports.
    pub(super) fn wait_as(&self, reason: WaitReason, deadline: Option<Instant>) -> bool {
        self.raw.wait(reason, deadline)
    }

    /// Counts one thing to be done, which is done when the result is dropped. So it is in a panic, and if
    /// the closure that owns it never runs.
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

// As std's: nothing in it can be seen half-changed after a panic.
impl RefUnwindSafe for WaitGroup {}
impl UnwindSafe for WaitGroup {}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup").field("count", &self.raw.count()).finish()
    }
}

/// One thing to be done; dropping it says `done`.
pub(super) struct Entered {
    group: WaitGroup,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.group.done();
    }
}
