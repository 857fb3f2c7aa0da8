//! [`Condvar`]: wait until somebody says that something has changed.
//!
//! A waiter queues before it unlocks the mutex, so a notification that follows a change made under that mutex
//! finds it. Woken waiters lock the mutex as everybody does. They are not moved to the mutex's queue instead
//! (as parking_lot does): goroutines that are readied run one after the other on their P and mostly find the
//! mutex free, so there is no crowd to be avoided.
//!
//! Waiters are served in the order in which they came, and none wakes up without a notification or its
//! deadline.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use lock_api::RawMutex as _;

use super::deadline;
use super::mutex::MutexGuard;
use super::waitq::{GRANTED, Node, Queue};
use crate::atomic::{AtomicU32, Ordering};
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;

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
    /// 1 while somebody is queued. Changes under the queue's lock.
    waiting: AtomicU32,
    queue: Lock<Queue>,
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
        Condvar { waiting: AtomicU32::new(0), queue: Lock::new(Queue::new()) }
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
        if !self.anybody_waits() {
            return false;
        }
        let mut queue = self.queue.lock();
        let first = queue.pop(GRANTED);
        self.note_waiting(&queue);
        drop(queue);
        first.map(|first| first.ready()).is_some()
    }

    /// Wakes everybody who waits. Tells how many there were.
    pub fn notify_all(&self) -> usize {
        if !self.anybody_waits() {
            return 0;
        }
        let mut queue = self.queue.lock();
        let all = queue.take_all(GRANTED);
        self.note_waiting(&queue);
        drop(queue);
        let count = all.len();
        all.ready_all();
        count
    }

    /// Relaxed: a waiter says so before it unlocks the mutex, and a notifier has locked that mutex after (or
    /// has changed nothing that the waiter did not see).
    fn anybody_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    fn note_waiting(&self, queue: &Queue) {
        self.waiting.store(u32::from(!queue.is_empty()), Ordering::Relaxed);
    }

    /// True if notified, false if the time was over.
    fn wait_inner<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Instant>) -> bool {
        // SAFETY: the raw mutex is unlocked and locked again before the guard can be used.
        let raw = unsafe { MutexGuard::mutex(guard).raw() };
        let node = Node::new(0);
        let mut queue = self.queue.lock();
        // SAFETY: the node stays until it was granted or has been removed, below.
        unsafe { queue.push_back(&node) };
        self.waiting.store(1, Ordering::Relaxed);
        drop(queue);
        // SAFETY: the guard says that it is locked by us.
        unsafe { raw.unlock() };
        let address = std::ptr::from_ref(self) as usize;
        let notified = node.park(WaitReason::Condvar, address, deadline) == GRANTED;
        if !notified {
            let mut queue = self.queue.lock();
            queue.remove(&node);
            self.note_waiting(&queue);
        }
        raw.lock();
        notified
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.queue.lock().len()
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
