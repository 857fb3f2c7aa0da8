//! `std::sync` with gort's locks and channels. gort's locks are not poisoned, so every `LockResult` is `Ok`.

use std::time::Duration;

pub use gort::sync::{
    Barrier, BarrierWaitResult, LazyLock, Once, OnceLock, RwLockReadGuard, RwLockWriteGuard,
};
pub use gort::sync::{MutexGuard, WaitTimeoutResult};
pub use std::sync::{atomic, Arc, LockResult, TryLockError, TryLockResult};

#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(gort::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(gort::sync::Mutex::new(value))
    }

    pub fn into_inner(self) -> LockResult<T> {
        Ok(self.0.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        Ok(self.0.lock())
    }

    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.0.try_lock().ok_or(TryLockError::WouldBlock)
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        Ok(self.0.get_mut())
    }
}

#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(gort::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(gort::sync::RwLock::new(value))
    }

    pub fn into_inner(self) -> LockResult<T> {
        Ok(self.0.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        Ok(self.0.read())
    }

    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        Ok(self.0.write())
    }

    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.0.try_write().ok_or(TryLockError::WouldBlock)
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        Ok(self.0.get_mut())
    }
}

/// A condition variable that takes the guard and returns it, as std's does; gort's borrows the guard.
#[derive(Debug, Default)]
pub struct Condvar(gort::sync::Condvar);

impl Condvar {
    pub const fn new() -> Condvar {
        Condvar(gort::sync::Condvar::new())
    }

    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(&mut guard);
        Ok(guard)
    }

    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait_while(&mut guard, condition);
        Ok(guard)
    }

    pub fn wait_timeout<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let result = self.0.wait_for(&mut guard, timeout);
        Ok((guard, result))
    }

    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let result = self.0.wait_while_for(&mut guard, condition, timeout);
        Ok((guard, result))
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// gort's channels under the names of std's. gort itself uses crossbeam's names, and has only one type of
/// sender.
pub mod mpsc {
    pub use gort::chan::{bounded as sync_channel, unbounded as channel};
    pub use gort::chan::{IntoIter, Iter, TryIter};
    pub use gort::chan::{Receiver, Sender, Sender as SyncSender};
    pub use gort::chan::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
}
