//! The errors of channel operations. Those of sends give the message back.

use std::error::Error;
use std::fmt;

/// The message was not sent: the channel is disconnected or closed. Holds the message.
///
/// ```
/// use gort::chan::{SendError, unbounded};
///
/// let (s, r) = unbounded();
/// drop(r);
/// assert_eq!(s.send("hello"), Err(SendError("hello")));
/// ```
#[derive(PartialEq, Eq, Clone, Copy)]
pub struct SendError<T>(pub T);

/// Why [`Sender::try_send`](super::Sender::try_send) did not send. Holds the message.
///
/// ```
/// use gort::chan::{TrySendError, bounded};
///
/// let (s, r) = bounded(1);
/// s.send(1).unwrap();
/// assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
/// drop(r);
/// assert_eq!(s.try_send(2), Err(TrySendError::Disconnected(2)));
/// ```
#[derive(PartialEq, Eq, Clone, Copy)]
pub enum TrySendError<T> {
    /// There is no room now or, in a channel of capacity zero, no receiver waits now.
    Full(T),
    /// The channel is disconnected or closed.
    Disconnected(T),
}

/// Why [`Sender::send_timeout`](super::Sender::send_timeout) did not send. Holds the message.
///
/// ```
/// use gort::chan::{SendTimeoutError, bounded};
/// use std::time::Duration;
///
/// let (s, r) = bounded(0);
/// let err = s.send_timeout(1, Duration::from_millis(1)).unwrap_err();
/// assert_eq!(err, SendTimeoutError::Timeout(1));
/// drop(r);
/// ```
#[derive(PartialEq, Eq, Clone, Copy)]
pub enum SendTimeoutError<T> {
    /// The time ran out before there was room or, in a channel of capacity zero, a receiver.
    Timeout(T),
    /// The channel is disconnected or closed.
    Disconnected(T),
}

/// Nothing is left to receive, and nothing will come: the channel is empty and either disconnected or closed.
///
/// ```
/// use gort::chan::{RecvError, unbounded};
///
/// let (s, r) = unbounded::<i32>();
/// drop(s);
/// assert_eq!(r.recv(), Err(RecvError));
/// ```
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub struct RecvError;

/// Why [`Receiver::try_recv`](super::Receiver::try_recv) received nothing.
///
/// ```
/// use gort::chan::{TryRecvError, unbounded};
///
/// let (s, r) = unbounded::<i32>();
/// assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
/// drop(s);
/// assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
/// ```
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub enum TryRecvError {
    /// There is no message now or, in a channel of capacity zero, no sender waits now.
    Empty,
    /// The channel is empty and disconnected or closed.
    Disconnected,
}

/// Why [`Receiver::recv_timeout`](super::Receiver::recv_timeout) received nothing.
///
/// ```
/// use gort::chan::{RecvTimeoutError, unbounded};
/// use std::time::Duration;
///
/// let (_s, r) = unbounded::<i32>();
/// assert_eq!(r.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
/// ```
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub enum RecvTimeoutError {
    /// The time ran out before a message came.
    Timeout,
    /// The channel is empty and disconnected or closed.
    Disconnected,
}

/// No operation of a [`Select::try_select`](super::Select::try_select) was ready.
///
/// ```
/// use gort::chan::{Select, TrySelectError};
///
/// assert_eq!(Select::new().try_select().unwrap_err(), TrySelectError);
/// ```
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub struct TrySelectError;

/// No operation of a [`Select::select_timeout`](super::Select::select_timeout) became ready in time.
///
/// ```
/// use gort::chan::{Select, SelectTimeoutError};
/// use std::time::Duration;
///
/// assert_eq!(Select::new().select_timeout(Duration::ZERO).unwrap_err(), SelectTimeoutError);
/// ```
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub struct SelectTimeoutError;

/// No operation of a [`Select::try_ready`](super::Select::try_ready) was ready.
///
/// ```
/// use gort::chan::{Select, TryReadyError};
///
/// assert_eq!(Select::new().try_ready(), Err(TryReadyError));
/// ```
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub struct TryReadyError;

/// No operation of a [`Select::ready_timeout`](super::Select::ready_timeout) became ready in time.
///
/// ```
/// use gort::chan::{ReadyTimeoutError, Select};
/// use std::time::Duration;
///
/// assert_eq!(Select::new().ready_timeout(Duration::ZERO), Err(ReadyTimeoutError));
/// ```
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub struct ReadyTimeoutError;

const SEND_DISCONNECTED: &str = "sending on a disconnected channel";
const RECV_DISCONNECTED: &str = "receiving on an empty and disconnected channel";

impl<T> SendError<T> {
    /// Returns the message that was not sent.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TrySendError<T> {
    /// Returns the message that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(msg) | TrySendError::Disconnected(msg) => msg,
        }
    }

    /// Was there no room?
    pub fn is_full(&self) -> bool {
        matches!(self, TrySendError::Full(_))
    }

    /// Is the channel disconnected?
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TrySendError::Disconnected(_))
    }
}

impl<T> SendTimeoutError<T> {
    /// Returns the message that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(msg) | SendTimeoutError::Disconnected(msg) => msg,
        }
    }

    /// Did the time run out?
    pub fn is_timeout(&self) -> bool {
        matches!(self, SendTimeoutError::Timeout(_))
    }

    /// Is the channel disconnected?
    pub fn is_disconnected(&self) -> bool {
        matches!(self, SendTimeoutError::Disconnected(_))
    }
}

impl TryRecvError {
    /// Was there no message?
    pub fn is_empty(&self) -> bool {
        matches!(self, TryRecvError::Empty)
    }

    /// Is the channel disconnected?
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TryRecvError::Disconnected)
    }
}

impl RecvTimeoutError {
    /// Did the time run out?
    pub fn is_timeout(&self) -> bool {
        matches!(self, RecvTimeoutError::Timeout)
    }

    /// Is the channel disconnected?
    pub fn is_disconnected(&self) -> bool {
        matches!(self, RecvTimeoutError::Disconnected)
    }
}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(err: SendError<T>) -> TrySendError<T> {
        TrySendError::Disconnected(err.0)
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(err: SendError<T>) -> SendTimeoutError<T> {
        SendTimeoutError::Disconnected(err.0)
    }
}

impl From<RecvError> for TryRecvError {
    fn from(RecvError: RecvError) -> TryRecvError {
        TryRecvError::Disconnected
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(RecvError: RecvError) -> RecvTimeoutError {
        RecvTimeoutError::Disconnected
    }
}

// `Debug` of the send errors does not require `T: Debug`, so `send(..).unwrap()` works with every message.
impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SendError(..)")
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SendTimeoutError(..)")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(SEND_DISCONNECTED)
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TrySendError::Full(_) => "sending on a full channel",
            TrySendError::Disconnected(_) => SEND_DISCONNECTED,
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SendTimeoutError::Timeout(_) => "timed out waiting on send operation",
            SendTimeoutError::Disconnected(_) => SEND_DISCONNECTED,
        })
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(RECV_DISCONNECTED)
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TryRecvError::Empty => "receiving on an empty channel",
            TryRecvError::Disconnected => RECV_DISCONNECTED,
        })
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RecvTimeoutError::Timeout => "timed out waiting on receive operation",
            RecvTimeoutError::Disconnected => "channel is empty and disconnected",
        })
    }
}

impl fmt::Display for TrySelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("all operations in select would block")
    }
}

impl fmt::Display for SelectTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("timed out waiting on select")
    }
}

impl<T: Send> Error for SendError<T> {}
impl<T: Send> Error for TrySendError<T> {}
impl<T: Send> Error for SendTimeoutError<T> {}
impl Error for RecvError {}
impl Error for TryRecvError {}
impl Error for RecvTimeoutError {}
impl Error for TrySelectError {}
impl Error for SelectTimeoutError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_those_of_crossbeam() {
        assert_eq!(SendError(1).to_string(), "sending on a disconnected channel");
        assert_eq!(TrySendError::Full(1).to_string(), "sending on a full channel");
        assert_eq!(SendTimeoutError::Timeout(1).to_string(), "timed out waiting on send operation");
        assert_eq!(RecvError.to_string(), "receiving on an empty and disconnected channel");
        assert_eq!(TryRecvError::Empty.to_string(), "receiving on an empty channel");
        assert_eq!(RecvTimeoutError::Timeout.to_string(), "timed out waiting on receive operation");
        assert_eq!(RecvTimeoutError::Disconnected.to_string(), "channel is empty and disconnected");
        assert_eq!(TrySelectError.to_string(), "all operations in select would block");
        assert_eq!(SelectTimeoutError.to_string(), "timed out waiting on select");
        assert_eq!(format!("{:?}", SendError(1)), "SendError(..)");
        assert_eq!(format!("{:?}", TrySendError::Disconnected(1)), "Disconnected(..)");
    }

    #[test]
    fn errors_tell_what_happened_and_give_the_message_back() {
        assert!(TrySendError::Full(1).is_full() && !TrySendError::Full(1).is_disconnected());
        assert!(SendTimeoutError::Timeout(1).is_timeout());
        assert!(TryRecvError::Empty.is_empty() && TryRecvError::from(RecvError).is_disconnected());
        assert!(
            RecvTimeoutError::Timeout.is_timeout() && RecvTimeoutError::from(RecvError).is_disconnected()
        );
        assert_eq!(TrySendError::from(SendError(5)).into_inner(), 5);
        assert_eq!(SendTimeoutError::from(SendError(6)).into_inner(), 6);
        assert_eq!(SendError(7).into_inner(), 7);
    }
}
