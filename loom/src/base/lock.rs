//! The runtime's lock, as loom's mutex.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use loom::sync::{Mutex, MutexGuard};

pub(crate) struct Lock<T>(Mutex<T>);

pub(crate) struct Guard<'a, T, S = ()>(MutexGuard<'a, T>, PhantomData<S>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    pub(crate) fn lock_with<S>(&self, _inside: S) -> Guard<'_, T, S> {
        Guard(self.0.lock().expect("nobody panics under a runtime lock"), PhantomData)
    }

    pub(crate) fn lock_inside(&self) -> Guard<'_, T> {
        self.lock_with(())
    }

    pub(crate) fn lock_inside_beside<U>(&self, _other: &Guard<'_, U>) -> Guard<'_, T> {
        self.lock_with(())
    }
}

impl<T, S> Deref for Guard<'_, T, S> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T, S> DerefMut for Guard<'_, T, S> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Does nothing, because no model takes the P of a blocked M away.
pub(crate) struct RawLock;

impl RawLock {
    pub(crate) const fn new() -> RawLock {
        RawLock
    }

    pub(crate) fn lock(&self) {}

    pub(crate) fn unlock(&self) {}
}

/// Ranks are checked in gort's debug builds.
pub(crate) enum Rank {
    Alone,
    Arming,
    TimerHeap,
    Fired,
    Sched,
}

pub(crate) trait Ranked {
    const RANK: Rank;
}
