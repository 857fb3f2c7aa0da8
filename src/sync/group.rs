//! [`Group`]: goroutines that work on one job together, and the first error of any of them.
//!
//! This file does not run the members. [`Group::member`] wraps a closure so that it enters and leaves the
//! group wherever it is run, and `go.rs` spawns the wrapped closure. A member that panics, or never runs
//! because the spawn failed, leaves the group nevertheless: dropping its `Place` gives the place back.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::mutex::Mutex;
use super::semaphore::{OwnedSemaphorePermit, Semaphore};
use super::wait_group::{Entered, WaitGroup};
use crate::sched::word::status::WaitReason;

/// Goroutines that work on one job together, like Go's `errgroup`.
///
/// [`go`](Group::go) runs a function that may fail. [`wait`](Group::wait) waits for all members and returns
/// the first error. A group may limit how many members run at once. An error does not stop the other members;
/// they can check [`is_failed`](Group::is_failed). A panic counts as a failure: `wait` resumes it when all
/// members are done.
///
/// A clone is another handle to the same group, so that members can add members.
pub struct Group<E> {
    shared: Arc<Shared<E>>,
}

struct Shared<E> {
    members: WaitGroup,
    limit: Option<Arc<Semaphore>>,
    first: Mutex<First<E>>,
}

/// The first failure of the group.
enum First<E> {
    /// No member has failed.
    Fine,
    /// A member has failed, and `wait` has not reported it yet.
    Failed(Failure<E>),
    /// A member has failed, and `wait` has reported it.
    Told,
}

enum Failure<E> {
    Error(E),
    Panic(Box<dyn Any + Send>),
}

/// A member's place in the group. Dropping it gives the place back. The permit is dropped first (fields are
/// dropped in the order of their declaration), so it is free when `wait` returns.
struct Place {
    _permit: Option<OwnedSemaphorePermit>,
    _entered: Entered,
}

impl<E> Group<E> {
    /// An empty group without a limit.
    #[must_use]
    pub fn new() -> Group<E> {
        Group::make(None)
    }

    /// An empty group of which at most `limit` members run at once.
    ///
    /// # Panics
    /// If the limit is 0: no member could ever run.
    #[must_use]
    pub fn with_limit(limit: usize) -> Group<E> {
        assert!(limit > 0, "a group with limit 0 could never run anything");
        Group::make(Some(Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)))))
    }

    fn make(limit: Option<Arc<Semaphore>>) -> Group<E> {
        let first = Mutex::new(First::Fine);
        Group { shared: Arc::new(Shared { members: WaitGroup::new(), limit, first }) }
    }

    /// Waits until all members are done. Returns the first error once; later calls return `Ok` again.
    ///
    /// # Panics
    /// If the first failure was a panic, with the payload of that panic.
    pub fn wait(&self) -> Result<(), E> {
        self.shared.members.wait_as(WaitReason::Group, None);
        let mut first = self.shared.first.lock();
        if !matches!(*first, First::Failed(_)) {
            return Ok(());
        }
        let First::Failed(failure) = std::mem::replace(&mut *first, First::Told) else { unreachable!() };
        drop(first);
        match failure {
            Failure::Error(error) => Err(error),
            Failure::Panic(payload) => resume_unwind(payload),
        }
    }

    /// Whether a member has failed. Members can check this to stop early.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        !matches!(*self.shared.first.lock(), First::Fine)
    }

    /// Wraps `f` in a closure that runs it as a member of the group. If the group is at its limit, waits
    /// first until a member is done.
    pub(super) fn member<F>(&self, f: F) -> impl FnOnce() + use<E, F>
    where
        F: FnOnce() -> Result<(), E>,
    {
        let permit =
            self.shared.limit.as_ref().map(|limit| limit.acquire_owned(1).expect("a limit is at least 1"));
        self.run_in(Place { _permit: permit, _entered: self.shared.members.enter() }, f)
    }

    /// Like `member`, but returns `f` instead of waiting if the group is at its limit.
    pub(super) fn try_member<F>(&self, f: F) -> Result<impl FnOnce() + use<E, F>, F>
    where
        F: FnOnce() -> Result<(), E>,
    {
        let permit = match &self.shared.limit {
            None => None,
            Some(limit) => match limit.try_acquire_owned(1) {
                None => return Err(f),
                permit => permit,
            },
        };
        Ok(self.run_in(Place { _permit: permit, _entered: self.shared.members.enter() }, f))
    }

    fn run_in<F>(&self, place: Place, f: F) -> impl FnOnce() + use<E, F>
    where
        F: FnOnce() -> Result<(), E>,
    {
        let shared = self.shared.clone();
        move || {
            let _place = place;
            let failure = match catch_unwind(AssertUnwindSafe(f)) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => Failure::Error(error),
                Err(payload) => Failure::Panic(payload),
            };
            let mut first = shared.first.lock();
            if matches!(*first, First::Fine) {
                *first = First::Failed(failure);
            }
        }
    }
}

impl<E> Clone for Group<E> {
    fn clone(&self) -> Group<E> {
        Group { shared: self.shared.clone() }
    }
}

impl<E> Default for Group<E> {
    fn default() -> Group<E> {
        Group::new()
    }
}

impl<E> fmt::Debug for Group<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("members", &self.shared.members)
            .field("failed", &self.is_failed())
            .finish_non_exhaustive()
    }
}
