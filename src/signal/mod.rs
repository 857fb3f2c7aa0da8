//! Signals of the operating system, as messages. Go's `os/signal`.
//!
//! ```
//! use gort::signal::{SIGUSR1, notify};
//!
//! gort::run(|| {
//!     let signals = notify(&[SIGUSR1])?;
//!     // SAFETY: has no preconditions.
//!     unsafe { libc::raise(libc::SIGUSR1) };
//!     assert_eq!(signals.recv(), Ok(SIGUSR1));
//!     std::io::Result::Ok(())
//! })
//! .unwrap();
//! ```

mod dispatch;
mod names;

use std::fmt;
use std::io;
use std::ops::Deref;

use crate::chan::{Receiver, bounded};
use crate::context::{Cancel, Context};

pub use names::*;

/// The number of a signal.
///
/// ```
/// use gort::signal::{SIGTERM, Signal};
/// assert_eq!(SIGTERM.to_string(), "SIGTERM");
/// assert_eq!(Signal::from_raw(15), SIGTERM);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(i32);

impl Signal {
    /// The signal of that number.
    #[must_use]
    pub const fn from_raw(number: i32) -> Signal {
        Signal(number)
    }

    /// Its number.
    #[must_use]
    pub const fn as_raw(self) -> i32 {
        self.0
    }
}

/// How many signals a receiver of [`notify`] holds.
const CAPACITY: usize = 64;

/// Delivers these signals as messages, instead of what they did before, until the result is dropped. Everybody who asked
/// for a signal gets it.
///
/// Nobody is kept waiting: a signal that comes while 64 are not yet received is dropped, and signals of one number that come
/// in quick succession may count as one, as in the kernel. A handler that the program had installed is not called
/// meanwhile. As long as somebody awaits signals, no deadlock is reported: a signal may end every wait.
///
/// # Errors
/// For signals that cannot be handled (SIGKILL, SIGSTOP), that say that the program did something wrong and cannot go on
/// (SIGSEGV, SIGBUS, SIGFPE, SIGILL), and for SIGURG, with which gort interrupts goroutines that run for too long. Then none
/// of the others is delivered either.
///
/// ```
/// use gort::chan::{after, select};
/// use gort::signal::{SIGINT, SIGTERM, notify};
/// use std::time::Duration;
///
/// let signals = notify(&[SIGINT, SIGTERM]).unwrap();
/// select! {
///     recv(signals) -> signal => println!("got {}", signal.unwrap()),
///     recv(after(Duration::from_millis(1))) -> _ => println!("nobody wants us to end"),
/// }
/// ```
pub fn notify(signals: &[Signal]) -> io::Result<Signals> {
    notify_with_capacity(signals, CAPACITY)
}

/// As [`notify`], with a channel that holds `capacity` signals (at least one).
///
/// ```
/// use gort::signal::{SIGHUP, notify_with_capacity};
/// let hangups = notify_with_capacity(&[SIGHUP], 1).unwrap(); // one is as good as many
/// assert!(hangups.try_recv().is_err());
/// ```
///
/// # Errors
/// As [`notify`].
pub fn notify_with_capacity(signals: &[Signal], capacity: usize) -> io::Result<Signals> {
    let (sender, receiver) = bounded(capacity.max(1));
    let number = dispatch::add(signals, sender)?;
    Ok(Signals { receiver, number })
}

/// A context that ends when one of these signals comes, or with its parent. Go's `signal.NotifyContext`.
///
/// The signals have their former effect again as soon as the context has ended, so a second Ctrl-C ends a program that does
/// not come to its end. Cancel the context when it is no longer needed.
///
/// ```
/// use gort::context::Context;
/// use gort::signal::{SIGUSR2, notify_context};
///
/// let (ctx, _cancel) = notify_context(&Context::background(), &[SIGUSR2]).unwrap();
/// // SAFETY: has no preconditions.
/// unsafe { libc::raise(libc::SIGUSR2) };
/// assert!(ctx.done().recv().is_err()); // closed
/// ```
///
/// # Errors
/// As [`notify`].
pub fn notify_context(parent: &Context, signals: &[Signal]) -> io::Result<(Context, Cancel)> {
    let received = notify_with_capacity(signals, 1)?;
    let (ctx, cancel) = parent.with_cancel();
    let (ended, canceler) = (ctx.clone(), cancel.clone());
    crate::spawn(move || {
        crate::chan::select! {
            recv(received) -> signal => {
                drop(received);
                match signal {
                    Ok(signal) => canceler.cancel_with(Received(signal)),
                    Err(_) => canceler.cancel(),
                }
            }
            recv(ended.done()) -> _ => {}
        }
    });
    Ok((ctx, cancel))
}

/// The cause of the end of a [`notify_context`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received(pub Signal);

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "received {}", self.0)
    }
}

impl std::error::Error for Received {}

/// Receives the signals that were asked for with [`notify`]: a channel's [`Receiver`] that gives the signals back when it
/// is dropped, to others who asked for them, or else to what they did before.
#[must_use = "when it is dropped, the signals have their former effect again"]
pub struct Signals {
    receiver: Receiver<Signal>,
    number: u64,
}

impl Signals {
    /// The same as dropping it.
    pub fn stop(self) {}
}

impl Deref for Signals {
    type Target = Receiver<Signal>;

    fn deref(&self) -> &Receiver<Signal> {
        &self.receiver
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        dispatch::remove(self.number);
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").finish_non_exhaustive()
    }
}
