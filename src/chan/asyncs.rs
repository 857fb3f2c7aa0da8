//! The ends of channels as futures.
//!
//! A future cannot wait inside a poll, so its node lies in a [`Record`] on the heap, with two counts: the future's, and that
//! of the channel's queue, which passes to whoever claims the node and is given up by its `ready`.
//!
//! - R1. A record is queued once. Its `Wait` decides between a claimer and the future that takes the node back.
//! - R2. `polled`, `msg` and the node's outcome belong to the claimer from its claim until `done` is set; before and after
//!   to the future, or whoever has the last count.
//!
//! A receive only watches: it is told that a message came, and the next poll takes it. So a future that is dropped loses no
//! message. A send watches for room in the same way. Without a buffer two that only watch would never meet, so there a
//! send is queued as an operation, with its message: a receiver takes that, or the future takes it back when it is dropped.

use std::cell::UnsafeCell;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use crate::chan::errors::{RecvError, SendError, TryRecvError, TrySendError};
use crate::chan::handle::Handle;
use crate::chan::receiver::Receiver;
use crate::chan::sender::Sender;
use crate::chan::waitq::{Kind, Node, Outcome};
use crate::future::poller::Polled;
use crate::future::{Sleep, sleep_until};
use crate::sched::visit::Inside;
use crate::sched::waiter::{FIRST_FREE_CLAIM, Hook, UNCLAIMED, Wait, Waiter};
use crate::timer::Fire;

/// The claim of a future that takes its node back.
const TAKEN_BACK: usize = FIRST_FREE_CLAIM + 1;

#[repr(C)]
struct Record<T> {
    hook: Hook,
    wait: Wait,
    /// The claimer is done.
    done: AtomicBool,
    node: UnsafeCell<Node>,
    polled: UnsafeCell<Option<Polled>>,
    /// The message of a send that is queued as an operation.
    msg: UnsafeCell<Option<MaybeUninit<T>>>,
}

impl<T> Record<T> {
    fn new(waker: &Waker, msg: Option<T>) -> Arc<Record<T>> {
        let polled = Some(Polled::new(waker));
        let record = Arc::new_cyclic(|this: &std::sync::Weak<Record<T>>| {
            let this = this.as_ptr();
            // SAFETY: the record is there until `told` was called: its count in the queue.
            let waiter = unsafe { Waiter::from_hook(this.cast()) };
            // SAFETY: only an address is computed.
            let wait = unsafe { &raw const (*this).wait };
            Record {
                hook: Hook { ready: told::<T>, fire: never_told },
                wait: Wait::of(waiter),
                done: AtomicBool::new(false),
                node: UnsafeCell::new(Node::with(wait, waiter, FIRST_FREE_CLAIM, ptr::null_mut())),
                polled: UnsafeCell::new(polled),
                msg: UnsafeCell::new(msg.map(MaybeUninit::new)),
            }
        });
        // SAFETY: not published yet.
        unsafe {
            if let Some(msg) = &mut *record.msg.get() {
                (*record.node.get()).slot = msg.as_mut_ptr().cast();
            }
        }
        record
    }

    /// Whether somebody claimed it. It is done when `done` says so.
    fn is_claimed(&self) -> bool {
        self.wait.claim() != UNCLAIMED
    }

    /// Takes the node out of its queue, with the message. `Err`: somebody has claimed it.
    ///
    /// # Safety
    /// It was queued there, with this kind.
    unsafe fn take_back(self: &Arc<Self>, handle: &dyn Handle, kind: Kind) -> Result<Option<T>, ()> {
        if !self.wait.try_claim(TAKEN_BACK) {
            return Err(());
        }
        // SAFETY: it is ours. Out of the queue, that count is ours, too.
        unsafe {
            handle.dequeue(&Inside::enter(), self.node.get(), kind);
            drop(Arc::from_raw(Arc::as_ptr(self)));
            Ok(self.take_msg())
        }
    }

    /// # Safety
    /// The record is the caller's (R2).
    unsafe fn take_msg(&self) -> Option<T> {
        // SAFETY: an unclaimed or disconnected send still has its message.
        unsafe { (*self.msg.get()).take().map(|msg| msg.assume_init()) }
    }
}

impl<T> Drop for Record<T> {
    fn drop(&mut self) {
        if let Some(polled) = self.polled.get_mut().take() {
            // SAFETY: nobody was readied, and the last count goes.
            unsafe { polled.retract() };
        }
        if self.node.get_mut().outcome != Outcome::Done
            && let Some(msg) = self.msg.get_mut()
        {
            // SAFETY: nobody took it.
            unsafe { msg.assume_init_drop() };
        }
    }
}

/// The claimer is done with the node of a record: it gives up the queue's count and wakes who polls.
unsafe fn told<T>(hook: *const Hook) {
    // SAFETY: the count of the queue, which the claimer has (R1).
    let record = unsafe { Arc::from_raw(hook.cast::<Record<T>>()) };
    // SAFETY: R2.
    let polled = unsafe { (*record.polled.get()).take() };
    // Release: whoever sees it sees the outcome.
    record.done.store(true, Ordering::Release);
    drop(record);
    if let Some(polled) = polled {
        polled.waiter().ready();
    }
}

/// Who ends a wait at a channel uses that channel, and is not inside the runtime.
unsafe fn never_told(_hook: *const Hook) -> Fire {
    unreachable!("no timer ends a wait at a channel")
}

/// A future's wait at one end of a channel.
struct Watch<T> {
    record: Option<(Arc<Record<T>>, Waker)>,
    /// Of a receiver that delivers times.
    sleep: Option<Pin<Box<Sleep>>>,
}

// SAFETY: a record is handed from thread to thread as R2 says; a message must be `Send` for that.
unsafe impl<T: Send> Send for Watch<T> {}
// SAFETY: nothing can be done with a shared reference.
unsafe impl<T: Send> Sync for Watch<T> {}

impl<T> Watch<T> {
    const fn new() -> Watch<T> {
        Watch { record: None, sleep: None }
    }

    /// Whether it is queued, and will wake this waker.
    fn waits_for(&self, waker: &Waker) -> bool {
        self.record.as_ref().is_some_and(|(record, own)| !record.is_claimed() && own.will_wake(waker))
    }

    /// Queues a new record. False: the operation may be possible now; the message comes back.
    fn begin(
        &mut self,
        handle: &dyn Handle,
        kind: Kind,
        waker: &Waker,
        msg: Option<T>,
    ) -> Result<(), Option<T>> {
        let record = Record::new(waker, msg);
        let queued = Arc::into_raw(record.clone());
        // SAFETY: the queue's count keeps the node until it is claimed and told, or taken back.
        if unsafe { handle.enqueue(&mut Inside::enter(), record.node.get(), kind) } {
            self.record = Some((record, waker.clone()));
            return Ok(());
        }
        // SAFETY: not queued: both counts are ours.
        unsafe {
            drop(Arc::from_raw(queued));
            Err(record.take_msg())
        }
    }

    /// Takes the node out of its queue, if nobody has claimed it. The message, unless somebody took it.
    fn take_back(&mut self, handle: &dyn Handle, kind: Kind) -> Option<T> {
        self.sleep = None;
        let (record, _waker) = self.record.take()?;
        // SAFETY: it was queued there.
        unsafe { record.take_back(handle, kind) }.unwrap_or(None)
    }
}

/// The future of [`Receiver::recv_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct RecvFuture<'a, T> {
    receiver: &'a Receiver<T>,
    watch: Watch<()>,
}

impl<T> Receiver<T> {
    /// As [`recv`](Receiver::recv), as a future. Dropping it before it is ready loses no message.
    ///
    /// In a channel of capacity zero, a `try_send` does not see a receiver that waits in this way.
    ///
    /// ```
    /// let (sender, receiver) = gort::chan::bounded(1);
    /// gort::future::block_on(async {
    ///     sender.send_async(5).await.unwrap();
    ///     assert_eq!(receiver.recv_async().await, Ok(5));
    /// });
    /// ```
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        RecvFuture { receiver: self, watch: Watch::new() }
    }
}

impl<T> Future for RecvFuture<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
        let this = &mut *self;
        loop {
            match this.receiver.try_recv() {
                Ok(msg) => {
                    this.watch.take_back(this.receiver, Kind::Watch);
                    return Poll::Ready(Ok(msg));
                }
                Err(TryRecvError::Disconnected) => return Poll::Ready(Err(RecvError)),
                Err(TryRecvError::Empty) => {}
            }
            if let Some(deadline) = this.receiver.deadline() {
                let sleep = match &mut this.watch.sleep {
                    Some(sleep) if sleep.deadline() == Some(deadline) => sleep,
                    other => other.insert(Box::pin(sleep_until(deadline))),
                };
                if sleep.as_mut().poll(context).is_ready() {
                    this.watch.sleep = None;
                    continue;
                }
            }
            if this.watch.waits_for(context.waker()) {
                return Poll::Pending;
            }
            let sleep = this.watch.sleep.take();
            this.watch.take_back(this.receiver, Kind::Watch);
            this.watch.sleep = sleep;
            if this.watch.begin(this.receiver, Kind::Watch, context.waker(), None).is_ok() {
                return Poll::Pending;
            }
        }
    }
}

impl<T> Drop for RecvFuture<'_, T> {
    fn drop(&mut self) {
        self.watch.take_back(self.receiver, Kind::Watch);
    }
}

/// The future of [`Sender::send_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct SendFuture<'a, T> {
    sender: &'a Sender<T>,
    /// Not while it is in a record.
    msg: Option<T>,
    watch: Watch<T>,
}

// The message is never pinned.
impl<T> Unpin for SendFuture<'_, T> {}

impl<T> Sender<T> {
    /// As [`send`](Sender::send), as a future. If it is dropped before it is ready, the message is dropped with it and
    /// was not sent; or, in a channel of capacity zero, a receiver may have just taken it.
    ///
    /// ```
    /// let (sender, receiver) = gort::chan::bounded(0);
    /// let received = gort::spawn(move || receiver.recv());
    /// gort::future::block_on(sender.send_async("met")).unwrap();
    /// assert_eq!(received.join().unwrap(), Ok("met"));
    /// ```
    pub fn send_async(&self, msg: T) -> SendFuture<'_, T> {
        SendFuture { sender: self, msg: Some(msg), watch: Watch::new() }
    }

    fn async_kind(&self) -> Kind {
        if self.capacity() == Some(0) { Kind::Op } else { Kind::Watch }
    }
}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        let this = &mut *self;
        let kind = this.sender.async_kind();
        loop {
            let Some(msg) = this.msg.take() else {
                // It is in the record.
                match this.poll_record(context) {
                    Some(result) => return result,
                    None => continue,
                }
            };
            let msg = match this.sender.try_send(msg) {
                Ok(()) => {
                    this.watch.take_back(this.sender, kind);
                    return Poll::Ready(Ok(()));
                }
                Err(TrySendError::Disconnected(msg)) => {
                    this.watch.take_back(this.sender, kind);
                    return Poll::Ready(Err(SendError(msg)));
                }
                Err(TrySendError::Full(msg)) => msg,
            };
            if kind == Kind::Op {
                match this.watch.begin(this.sender, kind, context.waker(), Some(msg)) {
                    Ok(()) => return Poll::Pending,
                    Err(msg) => this.msg = msg,
                }
                continue;
            }
            this.msg = Some(msg);
            if this.watch.waits_for(context.waker()) {
                return Poll::Pending;
            }
            this.watch.take_back(this.sender, kind);
            if this.watch.begin(this.sender, kind, context.waker(), None).is_ok() {
                return Poll::Pending;
            }
        }
    }
}

impl<T> SendFuture<'_, T> {
    /// The message is with the queued operation. `None`: it is back.
    fn poll_record(&mut self, context: &mut Context<'_>) -> Option<Poll<Result<(), SendError<T>>>> {
        let (record, _) = self.watch.record.as_ref().expect("a future is not polled after it was ready");
        if record.done.load(Ordering::Acquire) {
            // SAFETY: the claimer is done (R2).
            let (outcome, msg) = unsafe {
                let outcome = (*record.node.get()).outcome;
                (outcome, if outcome == Outcome::Done { None } else { record.take_msg() })
            };
            self.watch.record = None;
            return Some(Poll::Ready(match msg {
                Some(msg) if outcome == Outcome::Disconnected => Err(SendError(msg)),
                Some(msg) => {
                    self.msg = Some(msg);
                    return None;
                }
                None => Ok(()),
            }));
        }
        if self.watch.waits_for(context.waker()) {
            return Some(Poll::Pending);
        }
        // SAFETY: it was queued there.
        match unsafe { record.take_back(self.sender, Kind::Op) } {
            Ok(msg) => {
                self.watch.record = None;
                self.msg = msg;
                None
            }
            Err(()) => {
                // Whoever claimed it is about to wake the old waker: ask again soon.
                context.waker().wake_by_ref();
                Some(Poll::Pending)
            }
        }
    }
}

impl<T> Drop for SendFuture<'_, T> {
    fn drop(&mut self) {
        let kind = self.sender.async_kind();
        drop(self.watch.take_back(self.sender, kind));
    }
}
