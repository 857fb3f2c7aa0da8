//! The runtime's lock is loom's mutex.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use loom::sync::{Mutex, MutexGuard};

pub(crate) struct Lock<T>(Mutex<T>);

pub(crate) struct Entered;

pub(crate) struct Guard<'a, T, S = ()>(MutexGuard<'a, T>, PhantomData<S>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T, Entered> {
        Guard(self.0.lock().unwrap(), PhantomData)
    }

    pub(crate) fn lock_visiting(&self) -> Guard<'_, T, Entered> {
        self.lock()
    }

    pub(crate) fn lock_inside(&self) -> Guard<'_, T> {
        Guard(self.0.lock().unwrap(), PhantomData)
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
