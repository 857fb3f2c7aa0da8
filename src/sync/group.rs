//! [`Group`]: goroutines that work on one thing, and the first error of any of them.
//!
//! What runs the members is not known here: [`Group::member`] wraps a closure so that, run anywhere, it
//! accounts for itself; `go.rs` spawns it. A member that never runs (the spawn failed) or panics leaves the
//! group all the same, since its place is given back when it is dropped.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::mutex::Mutex;
use super::semaphore::{OwnedSemaphorePermit, Semaphore};
use super::wait_group::{Entered, WaitGroup};
use crate::sched::reason::WaitReason;

/// Goroutines that work on one thing, as Go's `errgroup`.
///
/// [`go`](Group::go) runs a function that may fail, [`wait`](Group::wait) waits for all of them and gives the
/// first error. A group may have a limit to how many run at once. Others are not stopped by an error; they can
/// ask [`is_failed`](Group::is_failed). A panic counts as a failure and goes on in `wait`, when all are done.
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

/// How the group fares.
enum First<E> {
    /// Nobody has failed.
    Fine,
    /// Somebody has, and nobody was told yet.
    Failed(Failure<E>),
    /// Somebody has, and `wait` has told it.
    Told,
}

enum Failure<E> {
    Error(E),
    Panic(Box<dyn Any + Send>),
}

/// A member's place in the group, given up when dropped. The permit goes first (fields are dropped in their
/// order), so that whoever has waited for the group finds it free.
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

    /// An empty group of which `limit` members run at once.
    ///
    /// # Panics
    /// If the limit is 0: nobody could ever run.
    #[must_use]
    pub fn with_limit(limit: usize) -> Group<E> {
        assert!(limit > 0, "a group with limit 0 could never run anything");
        Group::make(Some(Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)))))
    }

    fn make(limit: Option<Arc<Semaphore>>) -> Group<E> {
        let first = Mutex::new(First::Fine);
        Group { shared: Arc::new(Shared { members: WaitGroup::new(), limit, first }) }
    }

    /// Waits until all members are done. Gives the first error, once; later waits give `Ok` again.
    ///
    /// # Panics
    /// If the first failure was a panic, with what that member panicked with.
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

    /// Whether a member has failed. For members that would rather stop then.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        !matches!(*self.shared.first.lock(), First::Fine)
    }

    /// The closure that makes `f` a member of the group, to be run somewhere. Waits while as many are
    /// members as the limit allows.
    pub(super) fn member<F>(&self, f: F) -> impl FnOnce() + use<E, F>
    where
        F: FnOnce() -> Result<(), E>,
    {
        let permit =
            self.shared.limit.as_ref().map(|limit| limit.acquire_owned(1).expect("a limit is at least 1"));
        self.run_in(Place { _permit: permit, _entered: self.shared.members.enter() }, f)
    }

    /// As `member`, but gives `f` back instead of waiting.
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
