//! Channels between goroutines, between threads, and between the two.
//!
//! The public API is that of [crossbeam-channel]: the same names, signatures, errors and macros. An operation
//! that has to wait parks the goroutine, or blocks the thread if the caller is not a goroutine. One thing is
//! added: [`Sender::close`], which is Go's `close`.
//!
//! ```
//! use gort::chan::{bounded, select, unbounded};
//! use std::time::Duration;
//!
//! let (s1, r1) = bounded(1);
//! let (_s2, r2) = unbounded::<i32>();
//! s1.send("hello").unwrap();
//! let got = select! {
//!     recv(r1) -> msg => msg.unwrap(),
//!     recv(r2) -> _ => "a number",
//!     default(Duration::from_secs(1)) => "nothing",
//! };
//! assert_eq!(got, "hello");
//! ```
//!
//! The memory ordering guarantees are those of Go: a send happens before the receive of its message, the
//! receive of message `k` happens before the completion of send `k + capacity`, and a close happens before
//! the error that it causes.
//!
//! [crossbeam-channel]: https://docs.rs/crossbeam-channel

mod asyncs;
pub(crate) mod counter;
mod errors;
mod flavors;
#[doc(hidden)]
#[allow(missing_docs)]
pub mod internal;
mod iter;
mod macros;
mod receiver;
pub(crate) mod select;
mod sender;
pub(crate) mod waitq;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sched::park::clock;

pub use self::select::{Select, SelectedOperation};
#[doc(inline)]
pub use crate::{__chan_select as select, __chan_select_biased as select_biased};
pub use asyncs::{RecvFuture, SendFuture};
pub use errors::{
    ReadyTimeoutError, RecvError, RecvTimeoutError, SelectTimeoutError, SendError, SendTimeoutError,
    TryReadyError, TryRecvError, TrySelectError, TrySendError,
};
pub use iter::{IntoIter, Iter, TryIter};
pub use receiver::Receiver;
pub use sender::Sender;

/// The largest ring that is allocated, in bytes. A bounded channel that would need a larger one is a list
/// with a limit instead, so that its memory grows with its messages.
const MAX_RING_BYTES: usize = 16 << 20;

/// Creates a channel that holds any number of messages: its sends never wait.
///
/// ```
/// let (s, r) = gort::chan::unbounded();
/// std::thread::spawn(move || s.send("done").unwrap());
/// assert_eq!(r.recv(), Ok("done"));
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    let (s, r) = counter::new(flavors::list::List::new(None));
    (Sender { flavor: sender::Flavor::List(s) }, Receiver { flavor: receiver::Flavor::List(r) })
}

/// Creates a channel that holds at most `cap` messages. With a capacity of zero, a send and a receive have to
/// meet: each waits for the other.
///
/// Every capacity works, even `usize::MAX`. A large channel takes memory for its messages as they come, not
/// all at once.
///
/// ```
/// use gort::chan::{TrySendError, bounded};
///
/// let (s, r) = bounded(1);
/// s.send(1).unwrap();
/// assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
/// assert_eq!(r.recv(), Ok(1));
///
/// let (s, r) = bounded(0);
/// std::thread::spawn(move || s.send("met").unwrap());
/// assert_eq!(r.recv(), Ok("met"));
/// ```
pub fn bounded<T>(cap: usize) -> (Sender<T>, Receiver<T>) {
    if cap == 0 {
        let (s, r) = counter::new(flavors::zero::Zero::new());
        return (Sender { flavor: sender::Flavor::Zero(s) }, Receiver { flavor: receiver::Flavor::Zero(r) });
    }
    if cap.saturating_mul(size_of::<flavors::slot::Slot<T>>()) > MAX_RING_BYTES {
        return limited_list(cap);
    }
    let (s, r) = counter::new(flavors::array::Array::new(cap));
    (Sender { flavor: sender::Flavor::Array(s) }, Receiver { flavor: receiver::Flavor::Array(r) })
}

/// Creates a bounded channel that is a list with a limit instead of a ring.
fn limited_list<T>(cap: usize) -> (Sender<T>, Receiver<T>) {
    let (s, r) = counter::new(flavors::list::List::new(Some(cap)));
    (Sender { flavor: sender::Flavor::List(s) }, Receiver { flavor: receiver::Flavor::List(r) })
}

/// A receiver that gets one message, after `duration`: the instant at which the message was due. The receiver
/// is never disconnected. If the instant lies beyond what [`Instant`] can represent, the receiver is
/// [`never()`].
///
/// ```
/// use gort::chan::{after, select, unbounded};
/// use std::time::Duration;
///
/// let (_s, r) = unbounded::<i32>();
/// let timed_out = select! {
///     recv(r) -> _ => false,
///     recv(after(Duration::from_millis(1))) -> _ => true,
/// };
/// assert!(timed_out);
/// ```
pub fn after(duration: Duration) -> Receiver<Instant> {
    clock::now().checked_add(duration).map_or(never(), at)
}

/// A receiver that gets one message, at the instant `when`: that instant. The receiver is never disconnected.
///
/// ```
/// use gort::chan::at;
/// use std::time::{Duration, Instant};
///
/// let when = Instant::now() + Duration::from_millis(1);
/// assert_eq!(at(when).recv(), Ok(when));
/// assert!(Instant::now() >= when);
/// ```
pub fn at(when: Instant) -> Receiver<Instant> {
    Receiver { flavor: receiver::Flavor::At(Arc::new(flavors::at::At::new(when))) }
}

/// A receiver that never gets a message and is never disconnected.
///
/// ```
/// use gort::chan::{TryRecvError, never};
///
/// assert_eq!(never::<i32>().try_recv(), Err(TryRecvError::Empty));
/// ```
pub const fn never<T>() -> Receiver<T> {
    Receiver { flavor: receiver::Flavor::Never }
}

/// A receiver that gets a message every `duration`: the instant at which the message was due. It holds one
/// message at a time and drops ticks that nobody takes. It is never disconnected. If the first tick lies
/// beyond what [`Instant`] can represent, the receiver is [`never()`].
///
/// ```
/// use gort::chan::tick;
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let ticks = tick(Duration::from_millis(1));
/// assert_eq!(ticks.iter().take(3).count(), 3);
/// assert!(start.elapsed() >= Duration::from_millis(3));
/// ```
pub fn tick(duration: Duration) -> Receiver<Instant> {
    let now = clock::now();
    match now.checked_add(duration) {
        Some(_) => {
            Receiver { flavor: receiver::Flavor::Tick(Arc::new(flavors::tick::Tick::new(now, duration))) }
        }
        None => never(),
    }
}

/// Creates the channel of a timer or a ticker, and a receiver of it.
pub(crate) fn alarm(
    when: Option<Instant>,
    period: Option<Duration>,
) -> (Arc<flavors::alarm::Alarm>, Receiver<Instant>) {
    let alarm = Arc::new(flavors::alarm::Alarm::new(when, period));
    (alarm.clone(), Receiver { flavor: receiver::Flavor::Alarm(alarm) })
}

pub(crate) use flavors::alarm::Alarm;
