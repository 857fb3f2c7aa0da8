//! The two kinds of goroutine, with private or with shared thread-local storage, for the workloads that
//! measure both.

use gort::JoinHandle;
use std::time::Duration;

/// How to start a goroutine.
pub trait Kind: 'static {
    /// Starts `f`.
    fn go<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T>;

    /// Runs `f` as a goroutine of this kind and waits for it.
    fn run<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
        gort::run(|| Self::go(f).join().unwrap())
    }

    /// Runs `compare_common::warm_then_time` in a goroutine of this kind.
    fn warm_then_time(size: u64, body: impl FnMut(u64) + Send + 'static) -> Duration {
        Self::run(move || compare_common::warm_then_time(size, body))
    }
}

/// `gort::spawn`: a goroutine with thread-local storage of its own.
pub struct Private;

impl Kind for Private {
    fn go<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        gort::spawn(f)
    }
}

/// `Builder::spawn_shared_tls`: a goroutine on its M's thread-local storage.
pub struct Shared;

impl Kind for Shared {
    fn go<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        // SAFETY: the workloads that run as this kind keep nothing in thread-locals: they count, allocate,
        // read the clock and call gort, and none of these leaves a thread-local borrowed when the next call
        // into gort begins.
        unsafe { gort::Builder::new().spawn_shared_tls(f) }.expect("memory for a goroutine")
    }
}
