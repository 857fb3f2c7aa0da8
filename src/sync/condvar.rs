//! [`Condvar`]: the surface of [`RawCondvar`], with `parking_lot`'s names.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use super::deadline;
use super::mutex::MutexGuard;
use super::raw_condvar::RawCondvar;
use super::waitq::Queue;
use crate::atomic::AtomicU32;
use crate::sched::lock::Lock;

/// A condition variable for use with [`Mutex`](super::Mutex), with `parking_lot`'s surface.
///
/// One condition variable may be used with several mutexes. There are no spurious wake-ups, but between the
/// notification and the lock others may have changed the value again: use [`wait_while`](Condvar::wait_while)
/// or a loop.
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

/// Whether a wait ended because its time was over.
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
    /// Nobody waits.
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar { raw: RawCondvar { waiting: AtomicU32::new(0), queue: Lock::new(Queue::new()) } }
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        let notified = self.wait_inner(guard, None);
        debug_assert!(notified);
    }

    /// As [`wait`](Condvar::wait), but for no longer than the timeout, which may be `Duration::MAX`.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        WaitTimeoutResult(!self.wait_inner(guard, deadline::after(timeout)))
    }

    /// As [`wait`](Condvar::wait), but not beyond the deadline.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(!self.wait_inner(guard, Some(deadline)))
    }

    /// Waits as long as the condition is true of the value.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// As [`wait_while`](Condvar::wait_while), but for no longer than the timeout. The result says that the
    /// time was over and the condition still true.
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_while_inner(guard, condition, deadline::after(timeout))
    }

    /// As [`wait_while`](Condvar::wait_while), but not beyond the deadline. The result says that the time was
    /// over and the condition still true.
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

    /// Wakes the one who waits longest. Tells whether there was one.
    pub fn notify_one(&self) -> bool {
        self.raw.notify_one()
    }

    /// Wakes everybody who waits. Tells how many there were.
    pub fn notify_all(&self) -> usize {
        self.raw.notify_all()
    }

    /// True if notified, false if the time was over.
    fn wait_inner<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Instant>) -> bool {
        // SAFETY: the guard says that the mutex is locked by us, and it cannot be used before `wait` has locked
        // it again.
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

// As std's: nothing in it can be seen half-changed after a panic.
impl RefUnwindSafe for Condvar {}
impl UnwindSafe for Condvar {}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
