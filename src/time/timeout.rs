//! [`timeout`]: runs a function and stops waiting for it after a given time.

use std::fmt;
use std::panic::resume_unwind;
use std::time::Duration;

use crate::chan::{RecvTimeoutError, bounded};
use crate::context::Context;

/// The error of [`timeout`]: the time had passed before the function returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("the timeout has elapsed")
    }
}

impl std::error::Error for Elapsed {}

/// Runs `f` as a goroutine and waits for its result, but no longer than `duration`.
///
/// A goroutine cannot be stopped from outside, so after that time `f` continues on its own. But waits in `f`
/// that have a timeout give up when the time has passed (see
/// [`Context::limit`](crate::context::Context::limit)), so that `f` can come to an end.
///
/// # Errors
/// If the time has passed before `f` returns.
///
/// # Panics
/// If `f` panics before the time has passed, with the same payload.
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
        // If the caller has stopped waiting, the value is dropped here.
        drop(finished.send(value));
    });
    match result.recv_timeout(duration) {
        Ok(value) => Ok(value),
        Err(RecvTimeoutError::Timeout) => Err(Elapsed),
        Err(RecvTimeoutError::Disconnected) => match handle.join() {
            Err(payload) => resume_unwind(payload),
            Ok(()) => unreachable!("a function that returns has sent its value"),
        },
    }
}
