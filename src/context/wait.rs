//! Waits that end with a context (`recv_ctx`, `lock_ctx` and so on), built on [`Context::limit`].

use std::time::Duration;

use super::errors::AcquireCtxError;
use super::{Context, Error, RecvCtxError, SendCtxError};
use crate::chan::{Receiver, RecvTimeoutError, SendTimeoutError, Sender};
use crate::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit, WaitGroup,
};

impl Context {
    /// Runs an attempt that may wait forever but gives up, with `None`, when this context ends.
    fn attempt<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> Result<T, Error> {
        loop {
            if let Some(result) = self.limit(&mut attempt) {
                return Ok(result);
            }
            // An attempt gives up only at the end of the context, or after a century: then it is repeated.
            if let Some(error) = self.err() {
                return Err(error);
            }
        }
    }
}

impl<T> Receiver<T> {
    /// Like [`recv`](Receiver::recv), but waits only until the context ends. A receive that need not wait
    /// succeeds even after the end.
    ///
    /// # Errors
    /// If the channel is empty and disconnected, or the context ended first.
    ///
    /// ```
    /// use gort::context::{Context, Error, RecvCtxError};
    /// let (s, r) = gort::chan::unbounded();
    /// let (ctx, cancel) = Context::background().with_cancel();
    /// s.send(1).unwrap();
    /// assert_eq!(r.recv_ctx(&ctx), Ok(1));
    /// cancel.cancel();
    /// assert_eq!(r.recv_ctx(&ctx), Err(RecvCtxError::Ended(Error::Canceled)));
    /// ```
    pub fn recv_ctx(&self, ctx: &Context) -> Result<T, RecvCtxError> {
        let received = ctx.attempt(|| match self.recv_timeout(Duration::MAX) {
            Ok(message) => Some(Ok(message)),
            Err(RecvTimeoutError::Disconnected) => Some(Err(RecvCtxError::Disconnected)),
            Err(RecvTimeoutError::Timeout) => None,
        });
        received.unwrap_or_else(|error| Err(RecvCtxError::Ended(error)))
    }
}

impl<T> Sender<T> {
    /// Like [`send`](Sender::send), but waits only until the context ends. A send that need not wait succeeds
    /// even after the end.
    ///
    /// # Errors
    /// If the channel is disconnected or closed, or the context ended first. The error contains the message.
    ///
    /// ```
    /// use gort::context::{Context, Error, SendCtxError};
    /// use std::time::Duration;
    /// let (s, _r) = gort::chan::bounded(1);
    /// let (ctx, _cancel) = Context::background().with_timeout(Duration::from_millis(1));
    /// assert_eq!(s.send_ctx(&ctx, 1), Ok(()));
    /// assert_eq!(s.send_ctx(&ctx, 2), Err(SendCtxError::Ended(2, Error::DeadlineExceeded)));
    /// ```
    pub fn send_ctx(&self, ctx: &Context, message: T) -> Result<(), SendCtxError<T>> {
        let mut message = Some(message);
        let sent = ctx.attempt(|| match self.send_timeout(message.take()?, Duration::MAX) {
            Ok(()) => Some(Ok(())),
            Err(SendTimeoutError::Disconnected(back)) => Some(Err(SendCtxError::Disconnected(back))),
            Err(SendTimeoutError::Timeout(back)) => {
                message = Some(back);
                None
            }
        });
        match (sent, message) {
            (Ok(result), _) => result,
            (Err(error), Some(message)) => Err(SendCtxError::Ended(message, error)),
            (Err(_), None) => unreachable!("a send that gave up gives its message back"),
        }
    }
}

/// Locks a [`Mutex`] with a context.
pub trait LockCtx<T: ?Sized> {
    /// Like `lock`, but waits only until the context ends. A free mutex is locked even after the end.
    ///
    /// # Errors
    /// If the context ended first.
    ///
    /// ```
    /// use gort::context::{Context, Error, LockCtx};
    /// let mutex = gort::sync::Mutex::new(1);
    /// let (ctx, cancel) = Context::background().with_cancel();
    /// let held = mutex.lock_ctx(&ctx).unwrap();
    /// cancel.cancel();
    /// assert_eq!(mutex.lock_ctx(&ctx).err(), Some(Error::Canceled));
    /// assert_eq!(*held, 1);
    /// ```
    fn lock_ctx(&self, ctx: &Context) -> Result<MutexGuard<'_, T>, Error>;
}

impl<T: ?Sized> LockCtx<T> for Mutex<T> {
    fn lock_ctx(&self, ctx: &Context) -> Result<MutexGuard<'_, T>, Error> {
        ctx.attempt(|| self.try_lock_for(Duration::MAX))
    }
}

/// Locks an [`RwLock`] with a context.
pub trait RwLockCtx<T: ?Sized> {
    /// Like `read`, but waits only until the context ends.
    ///
    /// # Errors
    /// If the context ended first.
    fn read_ctx(&self, ctx: &Context) -> Result<RwLockReadGuard<'_, T>, Error>;

    /// Like `write`, but waits only until the context ends.
    ///
    /// # Errors
    /// If the context ended first.
    ///
    /// ```
    /// use gort::context::{Context, Error, RwLockCtx};
    /// let lock = gort::sync::RwLock::new(1);
    /// let (ctx, cancel) = Context::background().with_cancel();
    /// let reading = lock.read_ctx(&ctx).unwrap();
    /// cancel.cancel();
    /// assert_eq!(lock.write_ctx(&ctx).err(), Some(Error::Canceled));
    /// assert_eq!(*reading, 1);
    /// ```
    fn write_ctx(&self, ctx: &Context) -> Result<RwLockWriteGuard<'_, T>, Error>;
}

impl<T: ?Sized> RwLockCtx<T> for RwLock<T> {
    fn read_ctx(&self, ctx: &Context) -> Result<RwLockReadGuard<'_, T>, Error> {
        ctx.attempt(|| self.try_read_for(Duration::MAX))
    }

    fn write_ctx(&self, ctx: &Context) -> Result<RwLockWriteGuard<'_, T>, Error> {
        ctx.attempt(|| self.try_write_for(Duration::MAX))
    }
}

impl Semaphore {
    /// Like [`acquire`](Semaphore::acquire), but waits only until the context ends. Free permits are taken
    /// even after the end.
    ///
    /// # Errors
    /// If the semaphore can never have that many permits, or if the context ended first.
    ///
    /// ```
    /// use gort::context::{AcquireCtxError, Context, Error};
    /// let semaphore = gort::sync::Semaphore::new(1);
    /// let (ctx, cancel) = Context::background().with_cancel();
    /// let permit = semaphore.acquire_ctx(&ctx, 1).unwrap();
    /// cancel.cancel();
    /// assert_eq!(semaphore.acquire_ctx(&ctx, 1).err(), Some(AcquireCtxError::Ended(Error::Canceled)));
    /// drop(permit);
    /// ```
    pub fn acquire_ctx(&self, ctx: &Context, n: usize) -> Result<SemaphorePermit<'_>, AcquireCtxError> {
        let acquired = ctx.attempt(|| self.acquire_timeout(n, Duration::MAX).transpose());
        acquired.map_err(AcquireCtxError::Ended)?.map_err(AcquireCtxError::TooMany)
    }
}

impl WaitGroup {
    /// Like [`wait`](WaitGroup::wait), but waits only until the context ends.
    ///
    /// # Errors
    /// If the context ended first.
    ///
    /// ```
    /// use gort::context::Context;
    /// use std::time::Duration;
    /// let group = gort::sync::WaitGroup::new();
    /// group.add(1);
    /// let (ctx, _cancel) = Context::background().with_timeout(Duration::from_millis(1));
    /// assert!(group.wait_ctx(&ctx).is_err());
    /// ```
    pub fn wait_ctx(&self, ctx: &Context) -> Result<(), Error> {
        ctx.attempt(|| self.wait_for(Duration::MAX).then_some(()))
    }
}
