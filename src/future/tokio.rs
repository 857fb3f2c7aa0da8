//! Runs futures of libraries that need Tokio. Tokio handles their I/O and timers on a thread of its own; the
//! goroutine that uses the library polls the future itself and parks in gort.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use tokio::runtime::{Builder, Handle, Runtime};

use super::block_on;

/// The runtime that the program passed to [`set_tokio`].
static GIVEN: OnceLock<Handle> = OnceLock::new();
/// The runtime that gort started because the program did not name one.
static OWN: OnceLock<Runtime> = OnceLock::new();

/// [`block_on`] for a future that needs Tokio, such as those of reqwest and sqlx, or `tokio::time::sleep`.
///
/// The first call starts a Tokio runtime with one thread, unless [`set_tokio`] named another runtime. The
/// goroutine polls the future itself, so the future may borrow, need not be `Send`, and may block. Tokio's
/// thread only waits for I/O and timers, and runs what the library spawns. As always with Tokio, what the
/// library spawns must not block for long.
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

/// Makes [`tokio()`] use an existing runtime. Returns false, and changes nothing, if it already has one.
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

/// A future that is polled in the context of Tokio's runtime.
struct Entered<F> {
    future: F,
    handle: &'static Handle,
}

impl<F: Future> Future for Entered<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _inside = self.handle.enter();
        // SAFETY: the field is pinned whenever `Entered` is, and is never moved out of it.
        unsafe { self.map_unchecked_mut(|this| &mut this.future) }.poll(context)
    }
}
