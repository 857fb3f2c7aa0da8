//! [`scope`]: goroutines that may borrow from the stack of their creator.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::builder::Builder;
use super::current::Goroutine;
use super::join::JoinInner;
use crate::sched::park::park_ready::park;
use crate::sched::types::waiter::Waiter;
use crate::sched::word::status::WaitReason;

/// The state that the scope and its goroutines share.
pub(super) struct ScopeData {
    /// The number of goroutines whose packet still exists, plus one for the creator. So it reaches 0 only
    /// once.
    running: AtomicUsize,
    panicked: AtomicBool,
    creator: Waiter,
}

impl ScopeData {
    pub(super) fn one_started(&self) {
        // Overflow would need 2^63 goroutines.
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts down for a goroutine that has ended and no longer uses what it borrowed.
    pub(super) fn one_ended(&self, panicked: bool) {
        if panicked {
            self.panicked.store(true, Ordering::Relaxed);
        }
        let creator = self.creator;
        // Release: everything that the goroutine did happens before the end of the scope. Acquire is for the
        // last goroutine, which readies the creator.
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            creator.ready();
        }
    }

    fn wait(&self) {
        // Acquire pairs with the Release in `one_ended`.
        if self.running.fetch_sub(1, Ordering::AcqRel) != 1 {
            park(WaitReason::Scope, std::ptr::from_ref(self) as usize);
        }
    }
}

/// A scope whose goroutines may borrow from the caller's stack. See [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    data: Arc<ScopeData>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f`, which may start goroutines that borrow from the caller's stack. Returns when all of them have
/// ended.
///
/// # Panics
/// If `f` panics, or if a goroutine panicked whose handle was not joined.
///
/// ```
/// let mut numbers = vec![1, 2, 3];
/// let total = gort::scope(|s| {
///     let sum = s.spawn(|| numbers.iter().sum::<i32>());
///     let count = s.spawn(|| numbers.len() as i32);
///     sum.join().unwrap() + count.join().unwrap()
/// });
/// numbers.push(total);
/// assert_eq!(numbers, [1, 2, 3, 9]);
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope {
        data: Arc::new(ScopeData {
            running: AtomicUsize::new(1),
            panicked: AtomicBool::new(false),
            creator: Waiter::current(),
        }),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.data.wait();
    match result {
        Err(payload) => resume_unwind(payload),
        Ok(_) if scope.data.panicked.load(Ordering::Relaxed) => panic!("a scoped goroutine panicked"),
        Ok(value) => value,
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    pub(super) fn data(&self) -> Arc<ScopeData> {
        self.data.clone()
    }

    /// Starts a goroutine inside the scope. See [`scope`].
    ///
    /// # Panics
    /// In the same cases as [`spawn`](crate::spawn).
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        match Builder::new().spawn_scoped(self, f) {
            Ok(handle) => handle,
            Err(error) => panic!("failed to spawn a goroutine: {error}"),
        }
    }
}

impl std::fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

/// Owns the result of a goroutine in a [`scope`].
pub struct ScopedJoinHandle<'scope, T> {
    inner: JoinInner<T>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    pub(super) fn new(inner: JoinInner<T>) -> Self {
        ScopedJoinHandle { inner, scope: PhantomData }
    }

    /// Waits for the goroutine and returns its result, or the payload of its panic.
    ///
    /// # Errors
    /// If the goroutine panicked: the payload.
    pub fn join(self) -> Result<T, Box<dyn Any + Send + 'static>> {
        self.inner.join()
    }

    /// Whether [`join`](ScopedJoinHandle::join) would return at once.
    pub fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }

    /// The goroutine's id and name.
    pub fn goroutine(&self) -> Goroutine {
        self.inner.goroutine()
    }
}

impl<T> std::fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("goroutine", &self.goroutine()).finish_non_exhaustive()
    }
}
