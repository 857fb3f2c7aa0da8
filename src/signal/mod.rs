//! Delivers signals of the operating system as messages on a channel, like Go's `os/signal`.
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
    /// The signal with that number.
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

/// How many signals a receiver of [`notify`] buffers; further ones are dropped.
const CAPACITY: usize = 64;

/// Delivers these signals as messages, instead of their former effect, until the result is dropped. If
/// several callers asked for a signal, each of them gets it.
///
/// The sender never waits: a signal that arrives while 64 are unread is dropped. Signals of one number that
/// arrive in quick succession may count as one, as in the kernel. A handler that the program had installed is
/// not called meanwhile. While a `Signals` exists, gort reports no deadlock, because a signal may end any
/// wait.
///
/// # Errors
/// For signals that cannot be handled (SIGKILL, SIGSTOP), for those after which the program cannot go on
/// (SIGSEGV, SIGBUS, SIGFPE, SIGILL), and for SIGURG, with which gort interrupts goroutines that run for too
/// long. In case of an error, none of the other signals is delivered either.
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

/// Like [`notify`], with a channel that buffers `capacity` signals (at least one).
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

/// A context that ends when one of these signals arrives, or when its parent ends. Like Go's
/// `signal.NotifyContext`.
///
/// The signals have their former effect again as soon as the context has ended. So a second Ctrl-C ends a
/// program that is slow to end by itself. Cancel the context when it is no longer needed.
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

/// The cause with which a [`notify_context`] ends when a signal arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received(pub Signal);

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "received {}", self.0)
    }
}

impl std::error::Error for Received {}

/// Receives the signals requested with [`notify`]. It is a channel's [`Receiver`]. When it is dropped, a
/// signal that no other `Signals` has requested gets its former effect back.
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
