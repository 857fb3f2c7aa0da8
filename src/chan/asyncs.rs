//! Sends and receives as futures: `send_async` and `recv_async`.
//!
//! A future cannot wait inside a poll, so its node cannot lie on a stack. It lies in a [`Record`] on the heap
//! instead. The record has two reference counts: one belongs to the future, the other to the channel's queue.
//! A claimer of the node takes over the queue's count, and its `ready` gives that count up.
//!
//! - R1. A record is queued once. Its `Wait` decides between a claimer and the future that takes the node
//!   back.
//! - R2. `polled`, `msg` and the node's outcome belong to the claimer from its claim until it sets `done`.
//!   Before and after that, they belong to the future or, once that is dropped, to the holder of the last
//!   count.
//!
//! A receive only watches: a sender tells it that a message came, and the next poll takes the message. So a
//! future that is dropped loses no message. A send watches for room in the same way. In a channel without a
//! buffer, two sides that only watch would never meet. So there a send is queued as an operation, together
//! with its message. A receiver takes that message, or the future takes it back when it is dropped.

use std::cell::UnsafeCell;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use crate::chan::errors::{RecvError, SendError, TryRecvError, TrySendError};
use crate::chan::receiver::Receiver;
use crate::chan::select::handle::Handle;
use crate::chan::sender::Sender;
use crate::chan::waitq::{Kind, Node, Outcome};
use crate::goroutine::sleep_future::{Sleep, sleep_until};
use crate::goroutine::waker::Polled;
use crate::sched::park::channel_op::Inside;
use crate::sched::park::wait::{FIRST_FREE_CLAIM, UNCLAIMED, Wait};
use crate::sched::types::waiter::{Hook, Waiter};

/// The claim with which a future takes its own node back.
const TAKEN_BACK: usize = FIRST_FREE_CLAIM + 1;

/// What a future queues at a channel: its node, and everything that a claimer needs to wake the future. The
/// hook comes first, because the `Waiter` is the hook's address.
#[repr(C)]
struct Record<T> {
    hook: Hook,
    wait: Wait,
    /// True once the claimer is done with the record.
    done: AtomicBool,
    node: UnsafeCell<Node>,
    /// Whom to ready: the party that polls the future. `None` once it was readied.
    polled: UnsafeCell<Option<Polled>>,
    /// The message of a send that is queued as an operation.
    msg: UnsafeCell<Option<MaybeUninit<T>>>,
}

impl<T> Record<T> {
    fn new(waker: &Waker, msg: Option<T>) -> Arc<Record<T>> {
        let polled = Some(Polled::new(waker));
        let record = Arc::new_cyclic(|this: &std::sync::Weak<Record<T>>| {
            let this = this.as_ptr();
            // SAFETY: the queue's count keeps the record alive until `told` is called.
            let waiter = unsafe { Waiter::from_hook(this.cast()) };
            // SAFETY: only an address is computed.
            let wait = unsafe { &raw const (*this).wait };
            Record {
                hook: Hook { ready: told::<T>, ready_inside: never_told, retract: never_retracted },
                wait: Wait::of(waiter),
                done: AtomicBool::new(false),
                node: UnsafeCell::new(Node::with(wait, waiter, FIRST_FREE_CLAIM, ptr::null_mut())),
                polled: UnsafeCell::new(polled),
                msg: UnsafeCell::new(msg.map(MaybeUninit::new)),
            }
        });
        // SAFETY: the record is not published yet, so it is ours.
        unsafe {
            if let Some(msg) = &mut *record.msg.get() {
                (*record.node.get()).data.slot = msg.as_mut_ptr().cast();
            }
        }
        record
    }

    /// Whether the node has been claimed, by a claimer or by its future. A claimer may still be at work: see
    /// `done`.
    fn is_claimed(&self) -> bool {
        self.wait.claim() != UNCLAIMED
    }

    /// Takes the node out of its queue and returns its message, if it has one. `Err`: a claimer was faster.
    ///
    /// # Safety
    /// The node was queued at `handle` with this kind.
    unsafe fn take_back(self: &Arc<Self>, handle: &dyn Handle, kind: Kind) -> Result<Option<T>, ()> {
        if !self.wait.try_claim(TAKEN_BACK) {
            return Err(());
        }
        // SAFETY: we won the claim, so the record is ours (R2). Once the node is out of the queue, the
        // queue's count is ours too.
        unsafe {
            handle.dequeue(&Inside::enter(), self.node.get(), kind);
            drop(Arc::from_raw(Arc::as_ptr(self)));
            Ok(self.take_msg())
        }
    }

    /// # Safety
    /// The record belongs to the caller (R2), and no receiver took its message.
    unsafe fn take_msg(&self) -> Option<T> {
        // SAFETY: no receiver took the message, so it is there.
        unsafe { (*self.msg.get()).take().map(|msg| msg.assume_init()) }
    }
}

impl<T> Drop for Record<T> {
    fn drop(&mut self) {
        if let Some(polled) = self.polled.get_mut().take() {
            // SAFETY: the Waiter was not readied and never will be, because this is the last count.
            unsafe { polled.retract() };
        }
        if self.node.get_mut().outcome() != Outcome::Done
            && let Some(msg) = self.msg.get_mut()
        {
            // SAFETY: the send did not happen, so the message is still there.
            unsafe { msg.assume_init_drop() };
        }
    }
}

/// The hook's `ready`: the claimer is done with the node. Gives up the queue's count and readies the party
/// that polls the future.
unsafe fn told<T>(hook: *const Hook) {
    // SAFETY: this is the queue's count, which the claimer took over (R1).
    let record = unsafe { Arc::from_raw(hook.cast::<Record<T>>()) };
    // SAFETY: the claimer owns `polled` until it sets `done` (R2).
    let polled = unsafe { (*record.polled.get()).take() };
    // Release pairs with the Acquire in `poll_record`: a future that sees `done` also sees the outcome.
    record.done.store(true, Ordering::Release);
    drop(record);
    if let Some(polled) = polled {
        polled.waiter().ready();
    }
}

/// The hook's `ready_inside`. Only users of the channel end a wait there, so no timer ever calls it.
unsafe fn never_told(_hook: *const Hook) -> Option<Waiter> {
    unreachable!("no timer ends a wait at a channel")
}

/// The hook's `retract`: a record is taken back by [`Watch`] itself.
unsafe fn never_retracted(_hook: *const Hook) {
    unreachable!("only its future takes a record back")
}

/// The wait of a future at one end of a channel.
struct Watch<T> {
    /// The record that was queued last, and the waker it was made for.
    record: Option<(Arc<Record<T>>, Waker)>,
    /// For receivers of timer channels: wakes the future at the receiver's deadline.
    sleep: Option<Pin<Box<Sleep>>>,
}

// SAFETY: R2 says which thread may use a record; its message moves between threads, hence `T: Send`.
unsafe impl<T: Send> Send for Watch<T> {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl<T: Send> Sync for Watch<T> {}

impl<T> Watch<T> {
    const fn new() -> Watch<T> {
        Watch { record: None, sleep: None }
    }

    /// Whether a record is queued that will wake this waker.
    fn waits_for(&self, waker: &Waker) -> bool {
        self.record.as_ref().is_some_and(|(record, own)| !record.is_claimed() && own.will_wake(waker))
    }

    /// Queues a new record. `Err`, with the message, if the operation may be possible now.
    fn begin(
        &mut self,
        handle: &dyn Handle,
        kind: Kind,
        waker: &Waker,
        msg: Option<T>,
    ) -> Result<(), Option<T>> {
        let record = Record::new(waker, msg);
        let queued = Arc::into_raw(record.clone());
        // SAFETY: the queue's count keeps the node alive until it is claimed and told, or taken back.
        if unsafe { handle.enqueue(&mut Inside::enter(), record.node.get(), kind) } {
            self.record = Some((record, waker.clone()));
            return Ok(());
        }
        // SAFETY: the record was not queued, so both counts are ours.
        unsafe {
            drop(Arc::from_raw(queued));
            Err(record.take_msg())
        }
    }

    /// Takes the node out of its queue, if it was not claimed. Returns the message, unless a claimer took it.
    fn take_back(&mut self, handle: &dyn Handle, kind: Kind) -> Option<T> {
        self.sleep = None;
        let (record, _waker) = self.record.take()?;
        // SAFETY: the node was queued at this handle with this kind.
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
    /// Like [`recv`](Receiver::recv), as a future. Dropping the future before it is ready loses no message.
    ///
    /// In a channel of capacity zero, `try_send` does not see a receiver that waits in this way.
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
    /// `None` while the message is in a record.
    msg: Option<T>,
    watch: Watch<T>,
}

// The message is never pinned.
impl<T> Unpin for SendFuture<'_, T> {}

impl<T> Sender<T> {
    /// Like [`send`](Sender::send), as a future. If the future is dropped before it is ready, the message is
    /// dropped with it and was not sent. The exception is a channel of capacity zero, where a receiver may
    /// have taken the message just before.
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

    /// How a future's send is queued. See the head of this file.
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
                // The message is in the record.
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
    /// Polls while the message is in the record. `None` if the message came back and is to be sent again.
    fn poll_record(&mut self, context: &mut Context<'_>) -> Option<Poll<Result<(), SendError<T>>>> {
        let (record, _) = self.watch.record.as_ref().expect("a future is not polled after it was ready");
        if record.done.load(Ordering::Acquire) {
            // SAFETY: the claimer is done, so the record is ours (R2).
            let (outcome, msg) = unsafe {
                let outcome = (*record.node.get()).outcome();
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
        // SAFETY: the node was queued at this handle with this kind.
        match unsafe { record.take_back(self.sender, Kind::Op) } {
            Ok(msg) => {
                self.watch.record = None;
                self.msg = msg;
                None
            }
            Err(()) => {
                // The claimer is about to wake the old waker, not this one: poll again soon.
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
