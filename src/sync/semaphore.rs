//! [`Semaphore`]: a number of permits, which limits how many goroutines may do something at once.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::raw::semaphore::{MAX_PERMITS, ONE, Outcome, RawSemaphore, Waiting};
use super::raw::waitq::Queue;
use crate::base::atomic::AtomicUsize;
use crate::base::lock::Lock;
use crate::sched::park::clock;

/// A weighted, fair semaphore.
///
/// Requests are served strictly in order. Requests for few permits cannot starve one for many, and no request
/// overtakes another, not even by `try_acquire`. A request for more than the maximum can never be met and
/// fails at once. The maximum is what the semaphore was created with, or more if permits were added later.
///
/// ```
/// use gort::sync::Semaphore;
/// let memory = Semaphore::new(100);
/// let a = memory.acquire(60).unwrap();
/// assert!(memory.try_acquire(60).is_none());
/// drop(a);
/// assert!(memory.try_acquire(60).is_some());
/// assert_eq!(memory.acquire(101).unwrap_err().maximum, 100);
/// ```
pub struct Semaphore {
    raw: RawSemaphore,
}

/// A request for more permits than a [`Semaphore`] can ever have.
///
/// ```
/// let error = gort::sync::Semaphore::new(1).acquire(2).unwrap_err();
/// assert_eq!(error.to_string(), "asked for 2 permits of a semaphore that has 1 at most");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPermits {
    /// The number of permits that the caller asked for.
    pub requested: usize,
    /// The maximum number of permits of the semaphore.
    pub maximum: usize,
}

impl fmt::Display for TooManyPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooManyPermits { requested, maximum } = self;
        write!(f, "asked for {requested} permits of a semaphore that has {maximum} at most")
    }
}

impl std::error::Error for TooManyPermits {}

impl Semaphore {
    /// The largest number of permits that any semaphore can have.
    pub const MAX_PERMITS: usize = MAX_PERMITS;

    /// A semaphore with `permits` free permits, which is also its maximum.
    ///
    /// # Panics
    /// If `permits` is more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[must_use]
    pub const fn new(permits: usize) -> Semaphore {
        Semaphore::with_maximum(permits, permits)
    }

    /// A semaphore that begins with `permits` free permits and accepts requests for up to `maximum`. Such a
    /// request waits until enough permits have been [added](Semaphore::add_permits).
    ///
    /// ```
    /// use gort::sync::Semaphore;
    /// let started = Semaphore::with_maximum(0, 1);
    /// std::thread::scope(|s| {
    ///     s.spawn(|| started.add_permits(1));
    ///     started.acquire(1).unwrap();
    /// });
    /// ```
    ///
    /// # Panics
    /// If `permits` is more than `maximum`, or `maximum` is more than
    /// [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[must_use]
    pub const fn with_maximum(permits: usize, maximum: usize) -> Semaphore {
        assert!(permits <= maximum, "a semaphore cannot have more permits than its maximum");
        assert!(maximum <= MAX_PERMITS, "a semaphore can have MAX_PERMITS at most");
        Semaphore {
            raw: RawSemaphore {
                state: AtomicUsize::new(permits * ONE),
                waiting: Lock::new(Waiting { queue: Queue::new(), total: permits, maximum }),
            },
        }
    }

    /// Waits until `n` permits are free and takes them. Dropping the result frees them again.
    #[inline]
    pub fn acquire(&self, n: usize) -> Result<SemaphorePermit<'_>, TooManyPermits> {
        let outcome = self.raw.acquire(n, None);
        debug_assert_ne!(outcome, Outcome::TimedOut);
        match outcome {
            Outcome::TooMany(maximum) => Err(TooManyPermits { requested: n, maximum }),
            _ => Ok(SemaphorePermit { semaphore: self, permits: n }),
        }
    }

    /// Takes `n` permits if they are free and no other request waits.
    #[inline]
    pub fn try_acquire(&self, n: usize) -> Option<SemaphorePermit<'_>> {
        self.raw.try_acquire(n).then(|| SemaphorePermit { semaphore: self, permits: n })
    }

    /// Like [`acquire`](Semaphore::acquire), but returns `None` after the timeout, which may be
    /// `Duration::MAX`.
    pub fn acquire_timeout(
        &self,
        n: usize,
        timeout: Duration,
    ) -> Result<Option<SemaphorePermit<'_>>, TooManyPermits> {
        self.acquire_inner(n, clock::after(timeout))
    }

    /// Like [`acquire`](Semaphore::acquire), but returns `None` when the deadline has passed.
    pub fn acquire_deadline(
        &self,
        n: usize,
        deadline: Instant,
    ) -> Result<Option<SemaphorePermit<'_>>, TooManyPermits> {
        self.acquire_inner(n, Some(deadline))
    }

    fn acquire_inner(
        &self,
        n: usize,
        deadline: Option<Instant>,
    ) -> Result<Option<SemaphorePermit<'_>>, TooManyPermits> {
        match self.raw.acquire(n, deadline) {
            Outcome::Acquired => Ok(Some(SemaphorePermit { semaphore: self, permits: n })),
            Outcome::TimedOut => Ok(None),
            Outcome::TooMany(maximum) => Err(TooManyPermits { requested: n, maximum }),
        }
    }

    /// Like [`acquire`](Semaphore::acquire), but the permit keeps the semaphore alive and may outlive the
    /// caller.
    ///
    /// ```
    /// use gort::sync::Semaphore;
    /// use std::sync::Arc;
    /// let limit = Arc::new(Semaphore::new(2));
    /// let permit = limit.acquire_owned(1).unwrap();
    /// std::thread::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(limit.available_permits(), 2);
    /// ```
    pub fn acquire_owned(self: &Arc<Semaphore>, n: usize) -> Result<OwnedSemaphorePermit, TooManyPermits> {
        let permit = self.acquire(n)?;
        std::mem::forget(permit);
        Ok(OwnedSemaphorePermit { semaphore: self.clone(), permits: n })
    }

    /// Like [`try_acquire`](Semaphore::try_acquire), but the permit keeps the semaphore alive.
    pub fn try_acquire_owned(self: &Arc<Semaphore>, n: usize) -> Option<OwnedSemaphorePermit> {
        self.raw.try_acquire(n).then(|| OwnedSemaphorePermit { semaphore: self.clone(), permits: n })
    }

    /// Adds `n` new permits.
    ///
    /// # Panics
    /// If the semaphore would then have more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    pub fn add_permits(&self, n: usize) {
        assert!(self.raw.add(n), "a semaphore can have MAX_PERMITS at most");
    }

    /// The number of free permits.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.raw.available()
    }

    #[cfg(test)]
    pub(super) fn raw(&self) -> &RawSemaphore {
        &self.raw
    }
}

// As for std's primitives: a panic never leaves it half-changed.
impl RefUnwindSafe for Semaphore {}
impl UnwindSafe for Semaphore {}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available_permits()).finish_non_exhaustive()
    }
}

/// Permits of a [`Semaphore`]. Dropping this frees them again.
///
/// ```
/// let semaphore = gort::sync::Semaphore::new(3);
/// let permit = semaphore.acquire(2).unwrap();
/// assert_eq!((permit.permits(), semaphore.available_permits()), (2, 1));
/// permit.forget();
/// assert_eq!(semaphore.available_permits(), 1);
/// ```
#[must_use = "the permits are free again as soon as this is dropped"]
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

impl SemaphorePermit<'_> {
    /// The number of permits that this holds.
    #[must_use]
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Gives the permits up without returning them to the semaphore. Requests up to the maximum still wait
    /// for them, until [`Semaphore::add_permits`] adds new ones.
    pub fn forget(self) {
        self.semaphore.raw.forget(self.permits);
        std::mem::forget(self);
    }
}

impl Drop for SemaphorePermit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.raw.release(self.permits);
    }
}

/// Like [`SemaphorePermit`], but shares the ownership of the semaphore.
///
/// ```
/// let semaphore = std::sync::Arc::new(gort::sync::Semaphore::new(3));
/// let permit = semaphore.try_acquire_owned(3).unwrap();
/// assert!(semaphore.try_acquire_owned(1).is_none());
/// drop(permit);
/// assert_eq!(semaphore.available_permits(), 3);
/// ```
#[must_use = "the permits are free again as soon as this is dropped"]
#[derive(Debug)]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

impl OwnedSemaphorePermit {
    /// The number of permits that this holds.
    #[must_use]
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Gives the permits up without returning them to the semaphore, like [`SemaphorePermit::forget`].
    pub fn forget(mut self) {
        self.semaphore.raw.forget(self.permits);
        self.permits = 0;
    }
}

impl Drop for OwnedSemaphorePermit {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.raw.release(self.permits);
    }
}
