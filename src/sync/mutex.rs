//! [`Mutex`], the public mutex: `lock_api`'s types and traits on top of [`RawMutex`].

use std::time::{Duration, Instant};

use super::holder::StackPage;
use super::raw::mutex::RawMutex;
use super::raw::waitq::Queue;
use crate::base::atomic::AtomicU32;
use crate::base::lock::Lock;
use crate::sched::park::clock;

/// A mutual exclusion lock that blocks the goroutine, not its thread.
///
/// The API is `lock_api`'s, as in `parking_lot`: `lock` returns a guard. There is no poisoning: a panic while
/// the guard lives releases the lock. Under contention it works like Go's mutex: running goroutines may
/// overtake parked ones, but a goroutine that has waited for a millisecond is served in order. The mutex
/// works from goroutines and from plain threads in any mix. It takes 24 bytes besides the value.
///
/// As with std's mutex, a guard stays with the goroutine or thread that locked. Locking a mutex that the
/// caller already holds blocks forever.
///
/// ```
/// use gort::sync::Mutex;
///
/// static COUNTER: Mutex<u32> = Mutex::new(0);
///
/// std::thread::scope(|s| {
///     for _ in 0..4 {
///         s.spawn(|| *COUNTER.lock() += 1);
///     }
/// });
/// assert_eq!(*COUNTER.lock(), 4);
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// The right to use the value of a [`Mutex`]. Dropping the guard unlocks the mutex.
///
/// ```
/// let mutex = gort::sync::Mutex::new(1);
/// let mut guard: gort::sync::MutexGuard<'_, i32> = mutex.lock();
/// *guard += 1;
/// drop(guard);
/// assert_eq!(mutex.into_inner(), 2);
/// ```
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// A [`MutexGuard`] for a part of the value.
///
/// ```
/// use gort::sync::{MappedMutexGuard, Mutex, MutexGuard};
/// let mutex = Mutex::new((1, 2));
/// let mut second: MappedMutexGuard<'_, i32> = MutexGuard::map(mutex.lock(), |pair| &mut pair.1);
/// *second = 3;
/// drop(second);
/// assert_eq!(*mutex.lock(), (1, 3));
/// ```
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

impl RawMutex {
    /// A page of the holder's stack, if the holder is known. `object` is what a goroutine that waits for the
    /// mutex gave to `park`.
    ///
    /// # Safety
    /// `object` is the address of a live `RawMutex`.
    pub(crate) unsafe fn holder_of(object: usize) -> Option<StackPage> {
        // SAFETY: the caller's promise.
        unsafe { &*(object as *const RawMutex) }.holder()
    }
}

// SAFETY: `acquire` and a successful `try_acquire` give the lock to one caller until `release`.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "an initial value, as lock_api asks")]
    const INIT: RawMutex =
        RawMutex { owner: AtomicU32::new(0), flags: AtomicU32::new(0), queue: Lock::new(Queue::new()) };

    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        self.acquire();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.try_acquire()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.release();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.is_held()
    }
}

// SAFETY: `release_fair` releases the lock: it hands it to a waiter or frees it.
unsafe impl lock_api::RawMutexFair for RawMutex {
    unsafe fn unlock_fair(&self) {
        self.release_fair();
    }
}

// SAFETY: the results tell whether the lock was taken.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.try_acquire() || (!timeout.is_zero() && self.acquire_until(clock::after(timeout)))
    }

    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.try_acquire() || (timeout > clock::now() && self.acquire_until(Some(timeout)))
    }
}
