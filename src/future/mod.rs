//! Runs futures in goroutines, and lets futures wait for goroutines.
//!
//! A goroutine (or a thread) that calls [`block_on`] polls the future itself, and parks while the future is
//! pending. No second runtime is involved: [`spawn`] starts a goroutine that calls `block_on`, and code
//! inside a future may block like any code in a goroutine. In the other direction, futures can await a
//! [`JoinHandle`], the [`recv_async`](crate::chan::Receiver::recv_async) and
//! [`send_async`](crate::chan::Sender::send_async) of channels, and [`sleep`].
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
//! For libraries that need Tokio's own runtime, see `tokio` (feature `tokio`).

mod block_on;
#[cfg(feature = "http")]
pub(crate) mod crew;
#[cfg(feature = "http")]
mod task_word;
#[cfg(feature = "tokio")]
mod tokio;

/// Without the feature `http` there is no crew.
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

pub use crate::goroutine::sleep_future::{Sleep, sleep, sleep_until};
pub use block_on::block_on;

#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use self::tokio::{set_tokio, tokio};

use crate::JoinHandle;

/// Starts a goroutine that runs `future` to its end.
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
