//! The type `Receiver`: the receiving side of a channel.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::chan::counter::ReceiverSide;
use crate::chan::errors::{RecvError, RecvTimeoutError, TryRecvError};
use crate::chan::flavors::alarm::Alarm;
use crate::chan::flavors::array::Array;
use crate::chan::flavors::at::At;
use crate::chan::flavors::list::List;
use crate::chan::flavors::tick::Tick;
use crate::chan::flavors::zero::Zero;
use crate::chan::flavors::zero::select::RecvEnd;
use crate::chan::iter::{Iter, TryIter};
use crate::chan::select::handle::Handle;
use crate::chan::waitq::{Kind, Node, Outcome, sleep_until};
use crate::sched::park::channel_op::Inside;
use crate::sched::park::clock;
use crate::sched::word::status::WaitReason;

/// The receiving side of a channel. All clones receive from the same channel; each message goes to one of
/// them. When the last of them is dropped, the channel is disconnected: buffered messages are dropped, and
/// senders get errors. If the drop of a message panics, the others are dropped all the same, and then the
/// first panic continues.
///
/// ```
/// use gort::chan::unbounded;
///
/// let (s, r) = unbounded();
/// s.send(1).unwrap();
/// s.send(2).unwrap();
/// assert_eq!(r.recv(), Ok(1));
/// assert_eq!(r.clone().recv(), Ok(2));
/// ```
pub struct Receiver<T> {
    pub(super) flavor: Flavor<T>,
}

pub(super) enum Flavor<T> {
    Array(ReceiverSide<Array<T>>),
    List(ReceiverSide<List<T>>),
    Zero(ReceiverSide<Zero<T>>),
    /// Only in a `Receiver<Instant>`.
    At(Arc<At>),
    /// Only in a `Receiver<Instant>`.
    Tick(Arc<Tick>),
    /// Only in a `Receiver<Instant>`.
    Alarm(Arc<Alarm>),
    Never,
}

// SAFETY: the channels behind it hand messages from thread to thread and share nothing else.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: the argument for `Send` holds here too.
unsafe impl<T: Send> Sync for Receiver<T> {}

impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

/// Turns an instant into a message of type `T`, which is `Instant`.
///
/// # Safety
/// `T` is `Instant`.
unsafe fn message<T>(instant: Instant) -> T {
    debug_assert_eq!(size_of::<T>(), size_of::<Instant>());
    // SAFETY: the two types are the same, and an `Instant` is `Copy`.
    unsafe { ptr::from_ref(&instant).cast::<T>().read() }
}

impl<T> Receiver<T> {
    /// Receives without waiting, or returns the reason why that is not possible now. In a channel of capacity
    /// zero this needs a sender that already waits.
    ///
    /// ```
    /// use gort::chan::{TryRecvError, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    /// s.send(5).unwrap();
    /// drop(s);
    /// assert_eq!(r.try_recv(), Ok(5));
    /// assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
    /// ```
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match &self.flavor {
            Flavor::Array(chan) => chan.try_recv(),
            Flavor::List(chan) => chan.try_recv(),
            Flavor::Zero(chan) => chan.try_recv(),
            // SAFETY: this flavor is built for instants only.
            Flavor::At(chan) => chan.try_recv().map(|instant| unsafe { message(instant) }),
            // SAFETY: this flavor, too, is built for instants only.
            Flavor::Tick(chan) => chan.try_recv().map(|instant| unsafe { message(instant) }),
            // SAFETY: this flavor, too, is built for instants only.
            Flavor::Alarm(chan) => chan.try_recv().map(|instant| unsafe { message(instant) }),
            Flavor::Never => Err(TryRecvError::Empty),
        }
    }

    /// Receives a message, and waits until there is one. Fails only if the channel is empty and disconnected
    /// or closed, now or while waiting.
    ///
    /// ```
    /// use gort::chan::{RecvError, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// std::thread::spawn(move || s.send(5).unwrap());
    /// assert_eq!(r.recv(), Ok(5));
    /// assert_eq!(r.recv(), Err(RecvError));
    /// ```
    #[inline(always)]
    pub fn recv(&self) -> Result<T, RecvError> {
        // Only a call, for the reason given in `Sender::send`.
        let result = match &self.flavor {
            Flavor::Zero(chan) => chan.recv(None),
            _ => self.recv_until(None),
        };
        result.map_err(|_| RecvError)
    }

    /// Like [`recv`](Receiver::recv), but for a limited time. A timeout of zero does not prevent a receive
    /// that need not wait. A timeout too long to be represented (`Duration::MAX`) means forever.
    ///
    /// ```
    /// use gort::chan::{RecvTimeoutError, unbounded};
    /// use std::time::Duration;
    ///
    /// let (s, r) = unbounded::<i32>();
    /// assert_eq!(r.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    /// drop(s);
    /// assert_eq!(r.recv_timeout(Duration::MAX), Err(RecvTimeoutError::Disconnected));
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(clock::after(timeout))
    }

    /// Like [`recv`](Receiver::recv), but only until `deadline`.
    ///
    /// ```
    /// use gort::chan::{RecvTimeoutError, unbounded};
    /// use std::time::Instant;
    ///
    /// let (s, r) = unbounded();
    /// assert_eq!(r.recv_deadline(Instant::now()), Err(RecvTimeoutError::Timeout));
    /// s.send(5).unwrap();
    /// assert_eq!(r.recv_deadline(Instant::now()), Ok(5));
    /// ```
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_until(Some(deadline))
    }

    #[inline]
    fn recv_until(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        match &self.flavor {
            Flavor::Array(chan) => chan.recv(deadline),
            Flavor::List(chan) => chan.recv(deadline),
            Flavor::Zero(chan) => chan.recv(deadline),
            // SAFETY: this flavor is built for instants only.
            Flavor::At(chan) => chan.recv(deadline).map(|instant| unsafe { message(instant) }),
            // SAFETY: this flavor, too, is built for instants only.
            Flavor::Tick(chan) => chan.recv(deadline).map(|instant| unsafe { message(instant) }),
            // SAFETY: this flavor, too, is built for instants only.
            Flavor::Alarm(chan) => chan.recv(deadline).map(|instant| unsafe { message(instant) }),
            Flavor::Never => {
                sleep_until(WaitReason::ChanReceive, 0, deadline);
                Err(RecvTimeoutError::Timeout)
            }
        }
    }

    /// Is nothing buffered? Always true for a channel of capacity zero.
    ///
    /// ```
    /// let (s, r) = gort::chan::unbounded();
    /// assert!(r.is_empty());
    /// s.send(1).unwrap();
    /// assert!(!r.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Is there no room? Always true for a channel of capacity zero, never for an unbounded one.
    ///
    /// ```
    /// let (s, r) = gort::chan::bounded(1);
    /// assert!(!r.is_full());
    /// s.send(1).unwrap();
    /// assert!(r.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        self.capacity() == Some(self.len())
    }

    /// The number of buffered messages.
    ///
    /// ```
    /// let (s, r) = gort::chan::unbounded();
    /// s.send(1).unwrap();
    /// assert_eq!(r.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        match &self.flavor {
            Flavor::Array(chan) => chan.len(),
            Flavor::List(chan) => chan.len(),
            Flavor::At(chan) => usize::from(chan.is_ready()),
            Flavor::Tick(chan) => usize::from(chan.is_ready()),
            Flavor::Alarm(chan) => usize::from(chan.is_ready()),
            Flavor::Zero(_) | Flavor::Never => 0,
        }
    }

    /// The number of messages that can be buffered; `None` if there is no limit.
    ///
    /// ```
    /// assert_eq!(gort::chan::unbounded::<i32>().1.capacity(), None);
    /// assert_eq!(gort::chan::bounded::<i32>(5).1.capacity(), Some(5));
    /// ```
    pub fn capacity(&self) -> Option<usize> {
        match &self.flavor {
            Flavor::Array(chan) => Some(chan.capacity()),
            Flavor::List(chan) => chan.limit(),
            Flavor::At(_) | Flavor::Tick(_) | Flavor::Alarm(_) => Some(1),
            Flavor::Zero(_) | Flavor::Never => Some(0),
        }
    }

    /// An iterator that waits for each message, until the channel is empty and disconnected or closed.
    ///
    /// ```
    /// let (s, r) = gort::chan::unbounded();
    /// std::thread::spawn(move || (0..3).for_each(|i| s.send(i).unwrap()));
    /// assert_eq!(r.iter().collect::<Vec<_>>(), [0, 1, 2]);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::new(self)
    }

    /// An iterator over the messages that are there now: it ends when it would have to wait.
    ///
    /// ```
    /// let (s, r) = gort::chan::unbounded();
    /// s.send(1).unwrap();
    /// s.send(2).unwrap();
    /// assert_eq!(r.try_iter().collect::<Vec<_>>(), [1, 2]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter::new(self)
    }

    /// Do both handles receive from the same channel?
    ///
    /// ```
    /// let (_s, r) = gort::chan::unbounded::<i32>();
    /// assert!(r.same_channel(&r.clone()));
    /// assert!(!r.same_channel(&gort::chan::never()));
    /// ```
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        match (&self.flavor, &other.flavor) {
            (Flavor::Array(a), Flavor::Array(b)) => a.same(b),
            (Flavor::List(a), Flavor::List(b)) => a.same(b),
            (Flavor::Zero(a), Flavor::Zero(b)) => a.same(b),
            (Flavor::At(a), Flavor::At(b)) => Arc::ptr_eq(a, b),
            (Flavor::Tick(a), Flavor::Tick(b)) => Arc::ptr_eq(a, b),
            (Flavor::Alarm(a), Flavor::Alarm(b)) => Arc::ptr_eq(a, b),
            (Flavor::Never, Flavor::Never) => true,
            _ => false,
        }
    }
}

/// Writes the result of a timer channel to the slot, and returns the outcome.
///
/// # Safety
/// The slot has room for an instant.
unsafe fn deliver(result: Result<Instant, TryRecvError>, slot: *mut u8) -> Outcome {
    match result {
        Ok(instant) => {
            // SAFETY: the caller's promise.
            unsafe { slot.cast::<Instant>().write(instant) };
            Outcome::Done
        }
        Err(_) => Outcome::Pending,
    }
}

impl<T> Receiver<T> {
    /// The handle for a select: the one with the least dispatch.
    #[inline]
    pub(super) fn handle(&self) -> &dyn Handle {
        match &self.flavor {
            Flavor::Zero(chan) => RecvEnd::of(chan),
            _ => self,
        }
    }
}

impl<T> Handle for Receiver<T> {
    fn object(&self) -> Option<usize> {
        match &self.flavor {
            Flavor::Array(chan) => Some(chan.address()),
            Flavor::List(chan) => Some(chan.address()),
            Flavor::Zero(chan) => Some(chan.address()),
            Flavor::Never => Some(0),
            Flavor::At(_) | Flavor::Tick(_) | Flavor::Alarm(_) => None,
        }
    }

    unsafe fn attempt(&self, slot: *mut u8) -> Outcome {
        // SAFETY: the slot has room for a message, which is an instant in the flavors of timer channels.
        unsafe {
            match &self.flavor {
                Flavor::Array(chan) => chan.try_recv_to(slot.cast()),
                Flavor::List(chan) => chan.try_recv_to(slot.cast()),
                Flavor::Zero(chan) => chan.try_recv_to(slot.cast()),
                Flavor::At(chan) => deliver(chan.try_recv(), slot),
                Flavor::Tick(chan) => deliver(chan.try_recv(), slot),
                Flavor::Alarm(chan) => deliver(chan.try_recv(), slot),
                Flavor::Never => Outcome::Pending,
            }
        }
    }

    fn is_ready(&self) -> bool {
        match &self.flavor {
            Flavor::Array(chan) => chan.is_recv_ready(),
            Flavor::List(chan) => chan.is_recv_ready(),
            Flavor::Zero(chan) => chan.is_recv_ready(),
            Flavor::At(chan) => chan.is_ready(),
            Flavor::Tick(chan) => chan.is_ready(),
            Flavor::Alarm(chan) => chan.is_ready(),
            Flavor::Never => false,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.flavor {
            Flavor::At(chan) => chan.deadline(),
            Flavor::Tick(chan) => chan.deadline(),
            Flavor::Alarm(chan) => chan.deadline(),
            _ => None,
        }
    }

    unsafe fn enqueue(&self, visit: &mut Inside, node: *const Node, kind: Kind) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.flavor {
                Flavor::Array(chan) => chan.enqueue_recv(visit, node, kind),
                Flavor::List(chan) => chan.enqueue_recv(visit, node, kind),
                Flavor::Zero(chan) => chan.enqueue_recv(visit, node, kind),
                // These channels have no queue: the select waits until their deadline.
                Flavor::At(chan) => !chan.is_ready(),
                Flavor::Tick(chan) => !chan.is_ready(),
                Flavor::Alarm(chan) => chan.enqueue(visit, node, kind),
                Flavor::Never => true,
            }
        }
    }

    unsafe fn dequeue(&self, visit: &Inside, node: *const Node, kind: Kind) {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.flavor {
                Flavor::Array(chan) => chan.dequeue_recv(visit, node, kind),
                Flavor::List(chan) => chan.dequeue_recv(visit, node, kind),
                Flavor::Zero(chan) => chan.dequeue_recv(visit, node, kind),
                Flavor::Alarm(chan) => chan.dequeue(visit, node, kind),
                Flavor::At(_) | Flavor::Tick(_) | Flavor::Never => {}
            }
        }
    }

    unsafe fn cancel(&self, outcome: Outcome, slot: *mut u8) {
        if outcome == Outcome::Done {
            // SAFETY: the caller's promise.
            unsafe { slot.cast::<T>().drop_in_place() };
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        let flavor = match &self.flavor {
            Flavor::Array(chan) => Flavor::Array(chan.acquire()),
            Flavor::List(chan) => Flavor::List(chan.acquire()),
            Flavor::Zero(chan) => Flavor::Zero(chan.acquire()),
            Flavor::At(chan) => Flavor::At(Arc::clone(chan)),
            Flavor::Tick(chan) => Flavor::Tick(Arc::clone(chan)),
            Flavor::Alarm(chan) => Flavor::Alarm(Arc::clone(chan)),
            Flavor::Never => Flavor::Never,
        };
        Receiver { flavor }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is released once, and not used afterwards.
        unsafe {
            match &self.flavor {
                Flavor::Array(chan) => chan.release(Array::close_and_discard),
                Flavor::List(chan) => chan.release(List::close_and_discard),
                Flavor::Zero(chan) => chan.release(|chan| _ = chan.close()),
                Flavor::At(_) | Flavor::Tick(_) | Flavor::Alarm(_) | Flavor::Never => {}
            }
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Receiver { .. }")
    }
}
