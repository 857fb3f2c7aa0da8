//! From the ordinary world into goroutines and back.

use std::panic::{Location, resume_unwind};

use super::join;
use crate::sched::spawn::Spec;
use crate::stack::size::SizeClass;

/// Runs `f` as a goroutine and blocks the caller until it returns.
///
/// The first use starts the one runtime of the process. May be called any number of times, from many threads at
/// once, and from goroutines. When `main` returns, goroutines that still run do not hold the process.
///
/// # Panics
/// If `f` panics, with the same payload; and as [`spawn`](crate::spawn), if there can be no goroutine.
///
/// ```
/// let name = String::from("gort");
/// let length = gort::run(|| gort::scope(|s| s.spawn(|| name.len()).join().unwrap()));
/// assert_eq!(length, 4);
/// ```
#[track_caller]
pub fn run<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let spec =
        Spec { class: SizeClass::usual(true), private_tls: true, site: Location::caller(), bubble: None };
    // SAFETY: we wait for the goroutine, so what it borrows outlives it.
    let handle = match unsafe { join::start(&spec, None, None, f) } {
        Ok(handle) => handle,
        Err(error) => panic!("failed to start the main goroutine: {error}"),
    };
    match handle.join() {
        Ok(value) => value,
        Err(payload) => resume_unwind(payload),
    }
}
