//! The type `Sender`: the sending side of a channel.

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use crate::chan::counter::SenderSide;
use crate::chan::errors::{SendError, SendTimeoutError, TrySendError};
use crate::chan::flavors::array::Array;
use crate::chan::flavors::list::List;
use crate::chan::flavors::zero::Zero;
use crate::chan::select::handle::Handle;
use crate::chan::waitq::{Kind, Node, Outcome};
use crate::sched::park::channel_op::Inside;
use crate::sched::park::clock;

/// The sending side of a channel. All clones send into the same channel. When the last of them is dropped,
/// the channel is disconnected: receivers get the messages that are left and then an error.
///
/// ```
/// use gort::chan::unbounded;
///
/// let (s1, r) = unbounded();
/// let s2 = s1.clone();
/// std::thread::spawn(move || s1.send(1).unwrap());
/// std::thread::spawn(move || s2.send(2).unwrap());
/// assert_eq!(r.iter().sum::<i32>(), 3);
/// ```
pub struct Sender<T> {
    pub(super) flavor: Flavor<T>,
}

pub(super) enum Flavor<T> {
    Array(SenderSide<Array<T>>),
    List(SenderSide<List<T>>),
    Zero(SenderSide<Zero<T>>),
}

// SAFETY: the channels behind it hand messages from thread to thread and share nothing else.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: the argument for `Send` holds here too.
unsafe impl<T: Send> Sync for Sender<T> {}

impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}

impl<T> Sender<T> {
    /// Sends without waiting, or returns the reason why that is not possible now. In a channel of capacity
    /// zero this needs a receiver that already waits.
    ///
    /// ```
    /// use gort::chan::{TrySendError, bounded};
    ///
    /// let (s, r) = bounded(1);
    /// assert_eq!(s.try_send(1), Ok(()));
    /// assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
    /// drop(r);
    /// assert_eq!(s.try_send(3), Err(TrySendError::Disconnected(3)));
    /// ```
    #[inline]
    pub fn try_send(&self, msg: T) -> Result<(), TrySendError<T>> {
        match &self.flavor {
            Flavor::Array(chan) => chan.try_send(msg),
            Flavor::List(chan) => chan.try_send(msg),
            Flavor::Zero(chan) => chan.try_send(msg),
        }
    }

    /// Sends a message, and waits for room or, in a channel of capacity zero, for a receiver. Fails, and
    /// returns the message, only if the channel is disconnected or closed, now or while waiting.
    ///
    /// ```
    /// use gort::chan::{SendError, bounded};
    ///
    /// let (s, r) = bounded(1);
    /// assert_eq!(s.send(1), Ok(()));
    /// drop(r);
    /// assert_eq!(s.send(2), Err(SendError(2)));
    /// ```
    #[inline(always)]
    pub fn send(&self, msg: T) -> Result<(), SendError<T>> {
        // Only a call, inlined into the caller, so that it adds no return of its own. When two goroutines
        // meet and switch to each other, the CPU mispredicts each return into code that they do not have in
        // common.
        let result = match &self.flavor {
            Flavor::Zero(chan) => chan.send(msg, None),
            _ => self.send_until(msg, None),
        };
        result.map_err(|err| SendError(err.into_inner()))
    }

    /// Like [`send`](Sender::send), but for a limited time. A timeout of zero does not prevent a send that
    /// need not wait. A timeout too long to be represented (`Duration::MAX`) means forever.
    ///
    /// ```
    /// use gort::chan::{SendTimeoutError, bounded};
    /// use std::time::Duration;
    ///
    /// let (s, r) = bounded(0);
    /// let err = s.send_timeout(1, Duration::from_millis(1));
    /// assert_eq!(err, Err(SendTimeoutError::Timeout(1)));
    /// drop(r);
    /// assert_eq!(s.send_timeout(1, Duration::MAX), Err(SendTimeoutError::Disconnected(1)));
    /// ```
    pub fn send_timeout(&self, msg: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_until(msg, clock::after(timeout))
    }

    /// Like [`send`](Sender::send), but only until `deadline`.
    ///
    /// ```
    /// use gort::chan::{SendTimeoutError, bounded};
    /// use std::time::Instant;
    ///
    /// let (s, _r) = bounded(1);
    /// assert_eq!(s.send_deadline(1, Instant::now()), Ok(()));
    /// assert_eq!(s.send_deadline(2, Instant::now()), Err(SendTimeoutError::Timeout(2)));
    /// ```
    pub fn send_deadline(&self, msg: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.send_until(msg, Some(deadline))
    }

    #[inline]
    fn send_until(&self, msg: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        match &self.flavor {
            Flavor::Array(chan) => chan.send(msg, deadline),
            Flavor::List(chan) => chan.send(msg, deadline),
            Flavor::Zero(chan) => chan.send(msg, deadline),
        }
    }

    /// Closes the channel, like Go's `close`. Receivers get what is buffered and then the error of a
    /// disconnected channel. Senders, both those that wait now and those that come later, get their message
    /// back in an error.
    ///
    /// Returns true if this call closed the channel. Closing again, or closing a channel whose receivers are
    /// gone, does nothing and returns false.
    ///
    /// ```
    /// use gort::chan::{RecvError, SendError, bounded};
    ///
    /// let (s, r) = bounded(2);
    /// s.send(1).unwrap();
    /// assert!(s.close());
    /// assert!(!s.clone().close());
    /// assert_eq!(s.send(2), Err(SendError(2)));
    /// assert_eq!(r.recv(), Ok(1));
    /// assert_eq!(r.recv(), Err(RecvError));
    /// ```
    pub fn close(&self) -> bool {
        match &self.flavor {
            Flavor::Array(chan) => chan.close(),
            Flavor::List(chan) => chan.close(),
            Flavor::Zero(chan) => chan.close(),
        }
    }

    /// Is nothing buffered? Always true for a channel of capacity zero.
    ///
    /// ```
    /// let (s, _r) = gort::chan::unbounded();
    /// assert!(s.is_empty());
    /// s.send(1).unwrap();
    /// assert!(!s.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Is there no room? Always true for a channel of capacity zero, never for an unbounded one.
    ///
    /// ```
    /// let (s, _r) = gort::chan::bounded(1);
    /// assert!(!s.is_full());
    /// s.send(1).unwrap();
    /// assert!(s.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        self.capacity() == Some(self.len())
    }

    /// The number of buffered messages.
    ///
    /// ```
    /// let (s, _r) = gort::chan::unbounded();
    /// s.send(1).unwrap();
    /// assert_eq!(s.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        match &self.flavor {
            Flavor::Array(chan) => chan.len(),
            Flavor::List(chan) => chan.len(),
            Flavor::Zero(_) => 0,
        }
    }

    /// The number of messages that can be buffered; `None` if there is no limit.
    ///
    /// ```
    /// assert_eq!(gort::chan::unbounded::<i32>().0.capacity(), None);
    /// assert_eq!(gort::chan::bounded::<i32>(5).0.capacity(), Some(5));
    /// ```
    pub fn capacity(&self) -> Option<usize> {
        match &self.flavor {
            Flavor::Array(chan) => Some(chan.capacity()),
            Flavor::List(chan) => chan.limit(),
            Flavor::Zero(_) => Some(0),
        }
    }

    /// Do both handles send into the same channel?
    ///
    /// ```
    /// let (s, _r) = gort::chan::unbounded::<i32>();
    /// assert!(s.same_channel(&s.clone()));
    /// assert!(!s.same_channel(&gort::chan::unbounded().0));
    /// ```
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        match (&self.flavor, &other.flavor) {
            (Flavor::Array(a), Flavor::Array(b)) => a.same(b),
            (Flavor::List(a), Flavor::List(b)) => a.same(b),
            (Flavor::Zero(a), Flavor::Zero(b)) => a.same(b),
            _ => false,
        }
    }

    /// Completes a send that a select has chosen.
    ///
    /// # Safety
    /// `outcome` came from an operation of this sender and was not used otherwise.
    pub(super) unsafe fn complete(&self, outcome: Outcome, msg: T) -> Result<(), SendError<T>> {
        let msg = ManuallyDrop::new(msg);
        let from = &raw const *msg;
        let done = match (&self.flavor, outcome) {
            (Flavor::Array(chan), Outcome::Credit) => chan.send_reserved(from),
            (Flavor::List(chan), Outcome::Credit) => chan.send_reserved(from),
            (Flavor::List(chan), Outcome::Free) => chan.send_free(from),
            (Flavor::Zero(chan), Outcome::Peer(peer)) => {
                // SAFETY: the caller's promise. The message is given away.
                unsafe { chan.fulfil(peer, from) };
                Outcome::Done
            }
            (_, Outcome::Disconnected) => Outcome::Disconnected,
            _ => unreachable!("gort: a send of a select came to {outcome:?}"),
        };
        if done == Outcome::Done { Ok(()) } else { Err(SendError(ManuallyDrop::into_inner(msg))) }
    }
}

#[cfg(test)]
impl<T> Sender<T> {
    fn waiting(&self) -> (usize, usize) {
        match &self.flavor {
            Flavor::Array(chan) => chan.waiting(),
            Flavor::List(chan) => chan.waiting(),
            Flavor::Zero(chan) => chan.waiting(),
        }
    }

    pub(super) fn waiting_senders(&self) -> usize {
        self.waiting().0
    }

    pub(super) fn waiting_receivers(&self) -> usize {
        self.waiting().1
    }
}

impl<T> Handle for Sender<T> {
    fn object(&self) -> Option<usize> {
        Some(match &self.flavor {
            Flavor::Array(chan) => chan.address(),
            Flavor::List(chan) => chan.address(),
            Flavor::Zero(chan) => chan.address(),
        })
    }

    unsafe fn attempt(&self, _slot: *mut u8) -> Outcome {
        match &self.flavor {
            Flavor::Array(chan) => chan.try_reserve(),
            Flavor::List(chan) => chan.try_reserve(),
            Flavor::Zero(chan) => chan.try_meet(),
        }
    }

    fn is_ready(&self) -> bool {
        match &self.flavor {
            Flavor::Array(chan) => chan.is_send_ready(),
            Flavor::List(chan) => chan.is_send_ready(),
            Flavor::Zero(chan) => chan.is_send_ready(),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    unsafe fn enqueue(&self, visit: &mut Inside, node: *const Node, kind: Kind) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.flavor {
                Flavor::Array(chan) => chan.enqueue_send(visit, node, kind),
                Flavor::List(chan) => chan.enqueue_send(visit, node, kind),
                Flavor::Zero(chan) => chan.enqueue_send(visit, node, kind),
            }
        }
    }

    unsafe fn dequeue(&self, visit: &Inside, node: *const Node, kind: Kind) {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.flavor {
                Flavor::Array(chan) => chan.dequeue_send(visit, node, kind),
                Flavor::List(chan) => chan.dequeue_send(visit, node, kind),
                Flavor::Zero(chan) => chan.dequeue_send(visit, node, kind),
            }
        }
    }

    unsafe fn cancel(&self, outcome: Outcome, _slot: *mut u8) {
        match (&self.flavor, outcome) {
            (Flavor::Array(chan), Outcome::Credit) => chan.cancel_reserved(),
            (Flavor::List(chan), Outcome::Credit) => chan.cancel_reserved(),
            // SAFETY: the caller's promise.
            (Flavor::Zero(chan), Outcome::Peer(peer)) => unsafe { chan.withdraw(peer) },
            _ => {}
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        let flavor = match &self.flavor {
            Flavor::Array(chan) => Flavor::Array(chan.acquire()),
            Flavor::List(chan) => Flavor::List(chan.acquire()),
            Flavor::Zero(chan) => Flavor::Zero(chan.acquire()),
        };
        Sender { flavor }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is released once, and not used afterwards.
        unsafe {
            match &self.flavor {
                Flavor::Array(chan) => chan.release(|chan| _ = chan.close()),
                Flavor::List(chan) => chan.release(|chan| _ = chan.close()),
                Flavor::Zero(chan) => chan.release(|chan| _ = chan.close()),
            }
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Sender { .. }")
    }
}
