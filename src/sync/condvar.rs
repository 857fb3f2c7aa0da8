//! [`Condvar`], the public condition variable: `parking_lot`'s API on top of [`RawCondvar`].

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use super::mutex::MutexGuard;
use super::raw::condvar::RawCondvar;
use super::raw::waitq::Queue;
use crate::base::atomic::AtomicU32;
use crate::base::lock::Lock;
use crate::sched::park::clock;

/// A condition variable for use with [`Mutex`](super::Mutex), with `parking_lot`'s API.
///
/// One condition variable may be used with several mutexes. There are no spurious wake-ups. But after the
/// notification, others may change the value again before the waiter locks the mutex: use
/// [`wait_while`](Condvar::wait_while) or a loop.
///
/// ```
/// use gort::sync::{Condvar, Mutex};
///
/// let (queue, filled) = (Mutex::new(Vec::new()), Condvar::new());
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         let mut queue = queue.lock();
///         filled.wait_while(&mut queue, |q| q.is_empty());
///         assert_eq!(queue.pop(), Some(1));
///     });
///     queue.lock().push(1);
///     filled.notify_one();
/// });
/// ```
pub struct Condvar {
    raw: RawCondvar,
}

/// Says whether a wait ended because of its timeout or deadline.
///
/// ```
/// use gort::sync::{Condvar, Mutex};
/// let result = Condvar::new().wait_for(&mut Mutex::new(()).lock(), std::time::Duration::ZERO);
/// assert!(result.timed_out());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the wait ended without a notification.
    #[must_use]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable without waiters.
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar { raw: RawCondvar { waiting: AtomicU32::new(0), queue: Lock::new(Queue::new()) } }
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        let notified = self.wait_inner(guard, None);
        debug_assert!(notified);
    }

    /// Like [`wait`](Condvar::wait), but waits no longer than the timeout, which may be `Duration::MAX`.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        WaitTimeoutResult(!self.wait_inner(guard, clock::after(timeout)))
    }

    /// Like [`wait`](Condvar::wait), but does not wait beyond the deadline.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(!self.wait_inner(guard, Some(deadline)))
    }

    /// Waits while the condition returns true for the value.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Like [`wait_while`](Condvar::wait_while), but waits no longer than the timeout. The result says
    /// whether the condition was still true after the timeout.
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_while_inner(guard, condition, clock::after(timeout))
    }

    /// Like [`wait_while`](Condvar::wait_while), but does not wait beyond the deadline. The result says
    /// whether the condition was still true after the deadline.
    pub fn wait_while_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.wait_while_inner(guard, condition, Some(deadline))
    }

    fn wait_while_inner<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: Option<Instant>,
    ) -> WaitTimeoutResult {
        let mut timed_out = false;
        while condition(guard) {
            if timed_out {
                return WaitTimeoutResult(true);
            }
            timed_out = !self.wait_inner(guard, deadline);
        }
        WaitTimeoutResult(false)
    }

    /// Wakes the waiter that has waited longest. Returns whether there was one.
    pub fn notify_one(&self) -> bool {
        self.raw.notify_one()
    }

    /// Wakes all waiters. Returns how many there were.
    pub fn notify_all(&self) -> usize {
        self.raw.notify_all()
    }

    /// Returns true if notified, false if the deadline passed.
    fn wait_inner<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Instant>) -> bool {
        // SAFETY: the guard proves that we hold the mutex, and nobody can use the guard before `wait` has
        // locked the mutex again.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        self.raw.wait(mutex, deadline)
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.raw.queue.lock().len()
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

// As for std's primitives: a panic never leaves it half-changed.
impl RefUnwindSafe for Condvar {}
impl UnwindSafe for Condvar {}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
