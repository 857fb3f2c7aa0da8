//! The errors that say why a context ended, or why a wait with a context failed.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::sync::TooManyPermits;

/// Why a context ended.
///
/// ```
/// use gort::context::{Context, Error};
/// let (ctx, cancel) = Context::background().with_cancel();
/// assert_eq!(ctx.err(), None);
/// cancel.cancel();
/// assert_eq!(ctx.err(), Some(Error::Canceled));
/// assert_eq!(Error::Canceled.to_string(), "context canceled");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The context, or one that it was derived from, was cancelled.
    Canceled,
    /// The deadline of the context has passed.
    DeadlineExceeded,
}

/// The reason given for the end of a context, or the context's [`Error`] if none was given.
pub type Cause = Arc<dyn StdError + Send + Sync>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Error::Canceled => "context canceled",
            Error::DeadlineExceeded => "context deadline exceeded",
        })
    }
}

impl StdError for Error {}

/// Why [`Receiver::recv_ctx`](crate::chan::Receiver::recv_ctx) received nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvCtxError {
    /// The channel is empty and disconnected or closed.
    Disconnected,
    /// The context ended first.
    Ended(Error),
}

impl fmt::Display for RecvCtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvCtxError::Disconnected => f.pad("receiving on an empty and disconnected channel"),
            RecvCtxError::Ended(error) => error.fmt(f),
        }
    }
}

impl StdError for RecvCtxError {}

/// Why [`Semaphore::acquire_ctx`](crate::sync::Semaphore::acquire_ctx) acquired nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcquireCtxError {
    /// The request was for more permits than the semaphore can ever have.
    TooMany(TooManyPermits),
    /// The context ended first.
    Ended(Error),
}

impl fmt::Display for AcquireCtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireCtxError::TooMany(error) => error.fmt(f),
            AcquireCtxError::Ended(error) => error.fmt(f),
        }
    }
}

impl StdError for AcquireCtxError {}

/// Why [`Sender::send_ctx`](crate::chan::Sender::send_ctx) did not send. Contains the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendCtxError<T> {
    /// The channel is disconnected or closed.
    Disconnected(T),
    /// The context ended first.
    Ended(T, Error),
}

impl<T> SendCtxError<T> {
    /// The message that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            SendCtxError::Disconnected(message) | SendCtxError::Ended(message, _) => message,
        }
    }
}

impl<T> fmt::Debug for SendCtxError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendCtxError::Disconnected(_) => f.pad("Disconnected(..)"),
            SendCtxError::Ended(_, error) => write!(f, "Ended(.., {error:?})"),
        }
    }
}

impl<T> fmt::Display for SendCtxError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendCtxError::Disconnected(_) => f.pad("sending on a disconnected channel"),
            SendCtxError::Ended(_, error) => error.fmt(f),
        }
    }
}

impl<T: Send> StdError for SendCtxError<T> {}
