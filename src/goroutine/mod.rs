//! Starting goroutines and waiting for them. The names and the semantics are those of `std::thread`.

mod builder;
mod current;
mod join;
mod joinword;
pub(crate) mod panic;
mod run;
mod scope;
mod shared;

use std::io;
use std::panic::Location;

use crate::sched::spawn::Spec;
use crate::stack::size::SizeClass;

pub use builder::Builder;
pub use current::{Goroutine, current};
pub use join::JoinHandle;
pub use run::run;
pub use scope::{Scope, ScopedJoinHandle, scope};

/// Starts a goroutine that runs `f`.
///
/// It is a thread to the code inside it: it has its own `thread_local!`s, may block, compute for long, or
/// panic. A panic ends only this goroutine; [`JoinHandle::join`] returns the payload. Dropping the handle
/// detaches the goroutine.
///
/// Works from goroutines and from any OS thread; the first use starts the runtime. As with threads, either of the two
/// may go on first: usually it is the caller, and where many goroutines wait already it is the new one.
///
/// # Panics
/// If there is no memory, or no mapping, for another stack, or if the system lacks what gort needs (`gort doctor` tells).
/// [`Builder::spawn`] returns an error instead.
///
/// ```
/// let squares: Vec<_> = (0..10).map(|n| gort::spawn(move || n * n)).collect();
/// let sum: i32 = squares.into_iter().map(|handle| handle.join().unwrap()).sum();
/// assert_eq!(sum, 285);
/// ```
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match Builder::new().spawn(f) {
        Ok(handle) => handle,
        Err(error) => panic!("failed to spawn a goroutine: {error}"),
    }
}

/// As [`spawn`], in the bubble of that number (0: in none), wherever the caller is.
pub(crate) fn spawn_in_bubble<F, T>(
    bubble: u8,
    site: &'static Location<'static>,
    f: F,
) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let spec = Spec { class: SizeClass::usual(true), private_tls: true, site, bubble: Some(bubble) };
    // SAFETY: everything is 'static.
    unsafe { join::start(&spec, None, None, f) }.map(JoinHandle)
}

/// Starts a goroutine, as Go's `go` statement: `go!(expression)` or `go! { statements }`.
///
/// What the expression uses is moved into the goroutine. The value is a [`JoinHandle`].
///
/// ```
/// # use gort::go;
/// let greeting = String::from("hello");
/// let handle = go!(greeting.len());
/// assert_eq!(handle.join().unwrap(), 5);
/// ```
#[macro_export]
macro_rules! go {
    ($($body:tt)*) => {
        $crate::spawn(move || { $($body)* })
    };
}

/// Lets other goroutines run; the caller stays runnable.
///
/// ```
/// gort::run(|| gort::yield_now());
/// ```
pub fn yield_now() {
    crate::sched::park::yield_now();
}
