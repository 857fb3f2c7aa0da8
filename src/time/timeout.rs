//! Giving up on something after a while.

use std::fmt;
use std::panic::resume_unwind;
use std::time::Duration;

use crate::chan::{RecvTimeoutError, bounded};
use crate::context::Context;

/// A [`timeout`] was over first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("the time was over")
    }
}

impl std::error::Error for Elapsed {}

/// Runs `f` as a goroutine and waits for its result, but no longer than `duration`.
///
/// Nothing can be stopped in the middle of what it does, so after that time `f` is left to itself. But waits in it that
/// have a timeout give up when the time is over (see [`Context::limit`](crate::context::Context::limit)), so that it
/// can come to an end.
///
/// # Errors
/// If the time was over first.
///
/// # Panics
/// If `f` panics in time, with the same payload.
///
/// ```
/// use gort::time::{Elapsed, sleep, timeout};
/// use std::time::Duration;
/// assert_eq!(timeout(Duration::MAX, || 5), Ok(5));
/// assert_eq!(timeout(Duration::from_millis(1), || sleep(Duration::from_secs(5))), Err(Elapsed));
/// ```
pub fn timeout<F, T>(duration: Duration, f: F) -> Result<T, Elapsed>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (ctx, _cancel) = Context::background().with_timeout(duration);
    let (finished, result) = bounded::<T>(1);
    let handle = crate::spawn(move || {
        let value = ctx.limit(f);
        // If nobody waits any more, the value is dropped here.
        drop(finished.send(value));
    });
    match result.recv_timeout(duration) {
        Ok(value) => Ok(value),
        Err(RecvTimeoutError::Timeout) => Err(Elapsed),
        Err(RecvTimeoutError::Disconnected) => match handle.join() {
            Err(payload) => resume_unwind(payload),
            Ok(()) => unreachable!("who returns has sent its value"),
        },
    }
}
