//! Runs hyper's futures in goroutines: an implementation of hyper's `Executor` trait.

use std::future::Future;

/// Starts a goroutine for each future that hyper spawns: the requests of an HTTP/2 connection, and the
/// connections of a client.
///
/// ```
/// use hyper::rt::Executor as _;
/// let (sender, receiver) = gort::chan::bounded(1);
/// gort::hyper::Executor.execute(async move { sender.send(5).unwrap() });
/// assert_eq!(receiver.recv(), Ok(5));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Executor;

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[track_caller]
    fn execute(&self, future: F) {
        crate::future::spawn(future);
    }
}
