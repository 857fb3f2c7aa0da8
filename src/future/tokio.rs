//! Libraries that need Tokio: their I/O and timers are Tokio's, on a thread of its own, while the goroutine that uses them polls
//! them itself and parks in gort.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use tokio::runtime::{Builder, Handle, Runtime};

use super::block_on;

static GIVEN: OnceLock<Handle> = OnceLock::new();
static OWN: OnceLock<Runtime> = OnceLock::new();

/// As [`block_on`], for a future that needs Tokio: reqwest's, sqlx's, or `tokio::time::sleep`.
///
/// The first call starts a Tokio runtime with one thread, unless [`set_tokio`] named another one. The goroutine polls the
/// future itself, so the future may borrow, need not be `Send`, and may block; Tokio's thread only waits for its I/O and
/// timers and runs what the library spawns. What it spawns must not block for long, as always with Tokio.
///
/// ```
/// use std::time::Duration;
/// gort::run(|| {
///     let greeting = String::from("hello");
///     let seen = gort::future::tokio(async {
///         tokio::time::sleep(Duration::from_millis(1)).await; // would panic outside of Tokio
///         &greeting
///     });
///     assert_eq!(seen, "hello");
/// });
/// ```
///
/// # Panics
/// If Tokio's thread cannot be started.
pub fn tokio<F: IntoFuture>(future: F) -> F::Output {
    block_on(Entered { future: future.into_future(), handle: handle() })
}

/// Lets [`tokio()`] use a runtime that exists already. False: it has one.
///
/// ```
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
/// assert!(gort::future::set_tokio(runtime.handle().clone()));
/// let answer = gort::run(|| gort::future::tokio(async { tokio::spawn(async { 42 }).await.unwrap() }));
/// assert_eq!(answer, 42);
/// ```
pub fn set_tokio(handle: Handle) -> bool {
    OWN.get().is_none() && GIVEN.set(handle).is_ok()
}

fn handle() -> &'static Handle {
    if let Some(given) = GIVEN.get() {
        return given;
    }
    let start = || {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tokio-for-gort")
            .enable_all()
            .build()
            .expect("gort: Tokio's runtime cannot be started")
    };
    OWN.get_or_init(start).handle()
}

/// Is polled inside of the runtime.
struct Entered<F> {
    future: F,
    handle: &'static Handle,
}

impl<F: Future> Future for Entered<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _inside = self.handle.enter();
        // SAFETY: the future is pinned with the whole.
        unsafe { self.map_unchecked_mut(|this| &mut this.future) }.poll(context)
    }
}
