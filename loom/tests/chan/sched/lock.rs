//! The runtime's lock is loom's mutex.

use std::ops::{Deref, DerefMut};

use loom::sync::{Mutex, MutexGuard};

pub(crate) struct Lock<T>(Mutex<T>);

pub(crate) struct Guard<'a, T>(MutexGuard<'a, T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        Guard(self.0.lock().unwrap())
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
