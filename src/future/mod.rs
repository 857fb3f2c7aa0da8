//! Futures in goroutines, and goroutines in futures.
//!
//! A goroutine (or a thread) that calls [`block_on`] polls the future itself and parks when there is nothing to do. There is
//! no other runtime behind it: [`spawn`] starts a goroutine that does the same, and what runs inside a future may block
//! as any code in a goroutine. In the other direction, a [`JoinHandle`] is a future, the ends of channels have
//! [`recv_async`](crate::chan::Receiver::recv_async) and [`send_async`](crate::chan::Sender::send_async), and
//! [`sleep`] waits for time.
//!
//! ```
//! use gort::future::{block_on, spawn};
//!
//! let answer = block_on(async {
//!     let (sender, receiver) = gort::chan::bounded(0);
//!     let question = spawn(async move { receiver.recv_async().await.unwrap() * 2 });
//!     sender.send_async(21).await.unwrap();
//!     question.await.unwrap()
//! });
//! assert_eq!(answer, 42);
//! ```
//!
//! Libraries that need Tokio's own runtime: see `tokio` (feature `tokio`).

mod block_on;
#[cfg(feature = "http")]
pub(crate) mod crew;
pub(crate) mod poller;
mod sleep;
#[cfg(feature = "http")]
mod taskword;
#[cfg(feature = "tokio")]
mod tokio;

/// Without `http` there is none.
#[cfg(not(feature = "http"))]
pub(crate) mod crew {
    pub(crate) const fn idle() -> usize {
        0
    }
    pub(crate) const fn has_tasks() -> bool {
        false
    }
}

use std::future::Future;

pub use block_on::block_on;
pub use sleep::{Sleep, sleep, sleep_until};

#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use self::tokio::{set_tokio, tokio};

use crate::JoinHandle;

/// Starts a goroutine that runs `future`.
///
/// ```
/// let handle = gort::future::spawn(async { 6 * 7 });
/// assert_eq!(handle.join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    crate::spawn(move || block_on(future))
}
