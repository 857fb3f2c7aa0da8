//! Starts goroutines and waits for them, with the names and semantics of `std::thread`.

mod builder;
mod current;
pub(crate) mod deferred;
mod fork;
mod join;
mod join_word;
pub(crate) mod labels;
pub(crate) mod panic;
mod run;
mod scope;
mod shared;
pub(crate) mod sleep_future;
pub(crate) mod waker;

use std::io;
use std::panic::Location;

use crate::sched::boot;
use crate::sched::run::spawn::Spec;
use crate::sched::types::g::Info;
use crate::stack::size::Need;

pub use builder::Builder;
pub use current::{Goroutine, current};
pub use fork::join;
pub use join::JoinHandle;
pub use labels::{Labels, with_labels};
pub use run::{__run_test, run};
pub use scope::{Scope, ScopedJoinHandle, scope};

/// Starts a goroutine that runs `f`.
///
/// To the code inside it, a goroutine is a thread: it has its own `thread_local!`s, and may block, compute
/// for long, or panic. A panic ends only this goroutine; [`JoinHandle::join`] returns the payload. Dropping
/// the handle detaches the goroutine.
///
/// This works from goroutines and from any OS thread; the first call starts the runtime. As with threads,
/// either the caller or the new goroutine may run first: usually the caller, but the new goroutine if many
/// goroutines are waiting to run.
///
/// # Panics
/// If there is no memory or no mapping for another stack, or if the system lacks something that gort needs
/// (`gort doctor` says what). [`Builder::spawn`] returns an error instead.
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

/// What the `need` of a new goroutine is, after the runtime has found out how large stacks are.
fn stack<T>(need: impl FnOnce() -> T) -> T {
    boot::ensure();
    need()
}

/// Like [`spawn`], but starts the goroutine in the bubble of this number (0: in none), whatever bubble the
/// caller is in, with this stack and without labels.
pub(crate) fn spawn_in_bubble<F, T>(
    bubble: u8,
    need: impl FnOnce() -> Need,
    site: &'static Location<'static>,
    f: F,
) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let spec = Spec { stack: stack(need), private_tls: true, site, bubble: Some(bubble) };
    // SAFETY: everything is 'static.
    unsafe { join::start(&spec, Info::new(None, Labels::default().0), None, f) }.map(JoinHandle)
}

/// Starts a goroutine, like Go's `go` statement: `go!(expression)` or `go! { statements }`.
///
/// Variables that the body uses are moved into the goroutine. Like Go's statement the macro has no value, and
/// the value of the body is dropped; [`spawn`] returns a handle for those who want it. So `go! { … }` needs
/// no semicolon.
///
/// ```
/// # use gort::go;
/// let (sender, receiver) = gort::chan::bounded(2);
/// let other = sender.clone();
/// go! {
///     let greeting = String::from("hello");
///     other.send(greeting.len()).unwrap();
/// }
/// go!(sender.send(1).unwrap());
/// assert_eq!(receiver.iter().sum::<usize>(), 6);
/// ```
#[macro_export]
macro_rules! go {
    ($($body:tt)*) => {
        ::core::mem::drop($crate::spawn(move || { $($body)* }))
    };
}

/// Lets other goroutines run. The caller stays runnable.
///
/// ```
/// gort::run(|| gort::yield_now());
/// ```
pub fn yield_now() {
    crate::sched::park::park_ready::yield_now();
}
