//! [`run`]: enters gort from an ordinary thread, typically from `main`.

use std::panic::{Location, resume_unwind};

use super::labels::Labels;
use super::{join, stack};
use crate::sched::run::spawn::Spec;
use crate::sched::types::current::current;
use crate::sched::types::g::Info;
use crate::stack::size::Need;
use crate::tls::output_capture::Capture;

/// Runs `f` as a goroutine and blocks the caller until it returns.
///
/// The first call starts the runtime, of which a process has one. `run` may be called any number of times,
/// from many threads at once, and from goroutines. The goroutine has at least 8 MiB of stack. When `main`
/// returns the process exits, even if goroutines still run.
///
/// # Panics
/// If `f` panics, with the same payload. Also if no goroutine can be started: see [`spawn`](crate::spawn).
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
    let spec = Spec { stack: stack(Need::main), private_tls: true, site: Location::caller(), bubble: None };
    // SAFETY: we wait for the goroutine below, so what it borrows outlives it.
    let handle = match unsafe { join::start(&spec, Info::new(None, Labels::current().0), None, f) } {
        Ok(handle) => handle,
        Err(error) => panic!("failed to start the main goroutine: {error}"),
    };
    match handle.join() {
        Ok(value) => value,
        Err(payload) => resume_unwind(payload),
    }
}

/// [`run`] for `#[gort::test]`: the test harness captures what the goroutine prints, if it captures what the
/// calling thread prints.
#[doc(hidden)]
#[track_caller]
pub fn __run_test<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let capture = current().is_none().then(Capture::of_this_thread);
    run(move || {
        if let Some(capture) = capture {
            capture.install();
        }
        f()
    })
}
