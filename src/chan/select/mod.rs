//! The type `Select`: selecting from a list of operations that is known only at run time.

pub(crate) mod engine;
pub(crate) mod handle;
pub(crate) mod rng;

use std::alloc::Layout;
use std::fmt;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::time::{Duration, Instant};

use self::engine::{Nodes, Op, Slot, WaitLimit};
use crate::chan::errors::{
    ReadyTimeoutError, RecvError, SelectTimeoutError, SendError, TryReadyError, TrySelectError,
};
use crate::chan::flavors::payload::{Payload, union};
use crate::chan::receiver::Receiver;
use crate::chan::select::handle::Handle;
use crate::chan::sender::Sender;
use crate::chan::waitq::{Node, Outcome};
use crate::sched::types::waiter::Waiter;

/// A select of up to this many operations keeps its nodes on the stack. Larger ones allocate them, when they
/// have to wait.
const NODES_ON_STACK: usize = 16;

/// A list of operations, one of which is to be performed ([`select`](Select::select)) or found ready
/// ([`ready`](Select::ready)). If several are ready, one of them is chosen at random, or the first if the
/// select is biased. An operation is ready if it does not have to wait, even if it will only return an error.
///
/// If the operations are known at compile time, the macro [`select!`](super::select) is more convenient.
///
/// ```
/// use gort::chan::{Select, unbounded};
///
/// let channels: Vec<_> = (0..100).map(|_| unbounded()).collect();
/// let mut sel = Select::new();
/// for (_, r) in &channels {
///     sel.recv(r);
/// }
/// channels[42].0.send("hello").unwrap();
///
/// let oper = sel.select();
/// let index = oper.index();
/// assert_eq!(index, 42);
/// assert_eq!(oper.recv(&channels[index].1), Ok("hello"));
/// ```
pub struct Select<'a> {
    ops: Vec<Op<'a>>,
    /// A permutation of the places in `ops`; if biased, the identity.
    order: Vec<u32>,
    /// The index of the next operation to be added.
    next: usize,
    biased: bool,
    /// A layout that fits the message of every receive.
    layout: Layout,
    /// Who added the receives: messages that are not `Send` must stay there.
    owner: Owner,
}

/// The thread or goroutine that added the receives of a select.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    One(Waiter),
    Several,
}

// SAFETY: a `&Select` can only be cloned. A moved or cloned select may select an operation on a channel whose
// messages are not `Send`. But completing the operation takes the handle itself, which did not leave its
// thread. `SelectedOperation::drop` deals with messages of operations that are not completed.
unsafe impl Send for Select<'_> {}
// SAFETY: the argument for `Send` holds here too.
unsafe impl Sync for Select<'_> {}

impl<'a> Select<'a> {
    /// Creates an empty list.
    ///
    /// ```
    /// assert!(gort::chan::Select::new().try_select().is_err());
    /// ```
    pub fn new() -> Select<'a> {
        Select {
            ops: Vec::with_capacity(4),
            order: Vec::with_capacity(4),
            next: 0,
            biased: false,
            layout: Layout::new::<()>(),
            owner: Owner::Nobody,
        }
    }

    /// Creates an empty list for a biased select: of several ready operations, it chooses the first in the
    /// list.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    ///
    /// let (s, r) = unbounded::<i32>();
    /// let mut sel = Select::new_biased();
    /// let first = sel.send(&s);
    /// sel.send(&s);
    /// assert_eq!(sel.ready(), first);
    /// # drop(r);
    /// ```
    pub fn new_biased() -> Self {
        Select { biased: true, ..Select::new() }
    }

    /// Adds a send and returns its index. The message is given later, when the operation is completed.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// let mut sel = Select::new();
    /// assert_eq!(sel.send(&s), 0);
    /// sel.select().send(&s, "hello").unwrap();
    /// assert_eq!(r.recv(), Ok("hello"));
    /// ```
    pub fn send<T>(&mut self, s: &'a Sender<T>) -> usize {
        self.add(s, Slot::Send)
    }

    /// Adds a receive and returns its index.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// let mut sel = Select::new();
    /// assert_eq!(sel.recv(&r), 0);
    /// s.send("hello").unwrap();
    /// assert_eq!(sel.select().recv(&r), Ok("hello"));
    /// ```
    pub fn recv<T>(&mut self, r: &'a Receiver<T>) -> usize {
        self.layout = union(self.layout, Layout::new::<T>());
        let one = Owner::One(Waiter::current());
        self.owner = if self.owner == Owner::Nobody || self.owner == one { one } else { Owner::Several };
        self.add(r, Slot::Shared)
    }

    fn add(&mut self, handle: &'a dyn Handle, slot: Slot) -> usize {
        let index = self.next;
        self.order.push(u32::try_from(self.ops.len()).expect("fewer operations than that fit in memory"));
        self.ops.push(Op { handle, index, slot });
        self.next += 1;
        index
    }

    /// Takes an operation out of the list. The others keep their indices.
    ///
    /// # Panics
    /// If there is no operation with this index.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    ///
    /// let (_s, r1) = unbounded::<i32>();
    /// let (_, r2) = unbounded::<i32>();
    /// let mut sel = Select::new();
    /// let first = sel.recv(&r2);
    /// sel.recv(&r1);
    /// sel.remove(first);
    /// assert!(sel.try_ready().is_err());
    /// ```
    pub fn remove(&mut self, index: usize) {
        assert!(index < self.next, "index out of bounds; {index} >= {}", self.next);
        let place = self.ops.iter().position(|op| op.index == index);
        let place = place.expect("no operation with this index");
        self.ops.remove(place);
        self.order.clear();
        self.order.extend(0..self.ops.len() as u32);
    }

    /// Performs a ready operation, if there is one.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// let mut sel = Select::new();
    /// sel.recv(&r);
    /// assert!(sel.try_select().is_err());
    /// s.send(1).unwrap();
    /// assert_eq!(sel.try_select().unwrap().recv(&r), Ok(1));
    /// ```
    pub fn try_select(&mut self) -> Result<SelectedOperation<'a>, TrySelectError> {
        self.run(WaitLimit::None).ok_or(TrySelectError)
    }

    /// Waits until an operation is ready, and performs it.
    ///
    /// # Panics
    /// If the list is empty.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// std::thread::spawn(move || s.send(1).unwrap());
    /// let mut sel = Select::new();
    /// sel.recv(&r);
    /// assert_eq!(sel.select().recv(&r), Ok(1));
    /// ```
    pub fn select(&mut self) -> SelectedOperation<'a> {
        self.assert_not_empty();
        self.run(WaitLimit::Forever).expect("gort: an endless select ended")
    }

    /// Like [`select`](Select::select), but for a limited time.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    /// use std::time::Duration;
    ///
    /// let (_s, r) = unbounded::<i32>();
    /// let mut sel = Select::new();
    /// sel.recv(&r);
    /// assert!(sel.select_timeout(Duration::from_millis(1)).is_err());
    /// ```
    pub fn select_timeout(&mut self, timeout: Duration) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        self.run(WaitLimit::after(timeout)).ok_or(SelectTimeoutError)
    }

    /// Like [`select`](Select::select), but only until `deadline`.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    /// use std::time::Instant;
    ///
    /// let (_s, r) = unbounded::<i32>();
    /// let mut sel = Select::new();
    /// sel.recv(&r);
    /// assert!(sel.select_deadline(Instant::now()).is_err());
    /// ```
    pub fn select_deadline(
        &mut self,
        deadline: Instant,
    ) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        self.run(WaitLimit::Until(deadline)).ok_or(SelectTimeoutError)
    }

    /// Finds a ready operation, if there is one, without performing it. Others may perform it first.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// let mut sel = Select::new();
    /// sel.recv(&r);
    /// assert!(sel.try_ready().is_err());
    /// s.send(1).unwrap();
    /// assert_eq!(sel.try_ready(), Ok(0));
    /// assert_eq!(r.try_recv(), Ok(1));
    /// ```
    pub fn try_ready(&mut self) -> Result<usize, TryReadyError> {
        self.run_ready(WaitLimit::None).ok_or(TryReadyError)
    }

    /// Waits until an operation is ready, without performing it. Others may perform it first.
    ///
    /// # Panics
    /// If the list is empty.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// std::thread::spawn(move || s.send(1).unwrap());
    /// let mut sel = Select::new();
    /// sel.recv(&r);
    /// assert_eq!(sel.ready(), 0);
    /// assert_eq!(r.try_recv(), Ok(1));
    /// ```
    pub fn ready(&mut self) -> usize {
        self.assert_not_empty();
        self.run_ready(WaitLimit::Forever).expect("gort: an endless wait ended")
    }

    /// Like [`ready`](Select::ready), but for a limited time.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    /// use std::time::Duration;
    ///
    /// let (_s, r) = unbounded::<i32>();
    /// let mut sel = Select::new();
    /// sel.recv(&r);
    /// assert!(sel.ready_timeout(Duration::from_millis(1)).is_err());
    /// ```
    pub fn ready_timeout(&mut self, timeout: Duration) -> Result<usize, ReadyTimeoutError> {
        self.run_ready(WaitLimit::after(timeout)).ok_or(ReadyTimeoutError)
    }

    /// Like [`ready`](Select::ready), but only until `deadline`.
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    /// use std::time::Instant;
    ///
    /// let (_s, r) = unbounded::<i32>();
    /// let mut sel = Select::new();
    /// sel.recv(&r);
    /// assert!(sel.ready_deadline(Instant::now()).is_err());
    /// ```
    pub fn ready_deadline(&mut self, deadline: Instant) -> Result<usize, ReadyTimeoutError> {
        self.run_ready(WaitLimit::Until(deadline)).ok_or(ReadyTimeoutError)
    }

    fn assert_not_empty(&self) {
        assert!(!self.ops.is_empty(), "no operations have been added to `Select`");
    }

    fn run(&mut self, limit: WaitLimit) -> Option<SelectedOperation<'a>> {
        if matches!(limit, WaitLimit::Forever) {
            self.assert_not_empty();
        }
        let mut payload = Payload::new(self.layout);
        let shared = payload.as_mut_ptr();
        let mut nodes = [const { MaybeUninit::uninit() }; NODES_ON_STACK];
        let nodes = nodes_for(self.ops.len(), &mut nodes);
        // SAFETY: the payload fits the message of every receive in the list.
        let (place, outcome) =
            unsafe { engine::select(&self.ops, &mut self.order, shared, nodes, limit, self.biased)? };
        let Op { handle, index, .. } = self.ops[place];
        Some(SelectedOperation { handle, index, outcome, payload, owner: self.owner })
    }

    fn run_ready(&mut self, limit: WaitLimit) -> Option<usize> {
        if matches!(limit, WaitLimit::Forever) {
            self.assert_not_empty();
        }
        let mut nodes = [const { MaybeUninit::uninit() }; NODES_ON_STACK];
        let nodes = nodes_for(self.ops.len(), &mut nodes);
        let place = engine::ready(&self.ops, &mut self.order, nodes, limit, self.biased)?;
        Some(self.ops[place].index)
    }
}

fn nodes_for(count: usize, stack: &mut [MaybeUninit<Node>; NODES_ON_STACK]) -> Nodes<'_> {
    if count <= NODES_ON_STACK { Nodes::Given(stack) } else { Nodes::Heap(Vec::new()) }
}

impl<'a> Clone for Select<'a> {
    fn clone(&self) -> Select<'a> {
        Select { ops: self.ops.clone(), order: self.order.clone(), ..*self }
    }
}

impl<'a> Default for Select<'a> {
    fn default() -> Select<'a> {
        Select::new()
    }
}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Select { .. }")
    }
}

/// A selected operation, to be completed with [`send`](SelectedOperation::send) or
/// [`recv`](SelectedOperation::recv).
///
/// # Panics
/// Dropping it without completing the operation panics (unless the thread is panicking already), because
/// others were kept waiting for it. It does no other harm: the place of a send is given back, and the message
/// of a receive is dropped.
///
/// ```
/// use gort::chan::{Select, bounded};
///
/// let (s, r) = bounded(1);
/// let mut sel = Select::new();
/// sel.send(&s);
/// let oper = sel.select();
/// assert_eq!(oper.index(), 0);
/// oper.send(&s, "hello").unwrap();
/// assert_eq!(r.recv(), Ok("hello"));
/// ```
#[must_use = "a selected operation must be completed"]
pub struct SelectedOperation<'a> {
    handle: &'a dyn Handle,
    index: usize,
    outcome: Outcome,
    /// The message of a receive that is `Done`.
    payload: Payload,
    owner: Owner,
}

impl SelectedOperation<'_> {
    /// The index of the operation, as returned by [`Select::send`] or [`Select::recv`].
    ///
    /// ```
    /// use gort::chan::{Select, unbounded};
    ///
    /// let (s, _r) = unbounded();
    /// let mut sel = Select::new();
    /// let index = sel.send(&s);
    /// let oper = sel.select();
    /// assert_eq!(oper.index(), index);
    /// oper.send(&s, 1).unwrap();
    /// ```
    pub fn index(&self) -> usize {
        self.index
    }

    /// Completes a send. Fails if the channel is disconnected or closed.
    ///
    /// # Panics
    /// If `s` is not the sender of this operation.
    ///
    /// ```
    /// use gort::chan::{Select, SendError, bounded};
    ///
    /// let (s, r) = bounded(0);
    /// drop(r);
    /// let mut sel = Select::new();
    /// sel.send(&s);
    /// assert_eq!(sel.select().send(&s, 10), Err(SendError(10)));
    /// ```
    pub fn send<T>(self, s: &Sender<T>, msg: T) -> Result<(), SendError<T>> {
        assert!(self.is_of(ptr::from_ref(s).cast()), "passed a sender that wasn't selected");
        let outcome = self.complete().0;
        // SAFETY: the outcome is that of this sender's operation, and is used once.
        unsafe { s.complete(outcome, msg) }
    }

    /// Completes a receive. Fails if the channel is empty and disconnected or closed.
    ///
    /// # Panics
    /// If `r` is not the receiver of this operation.
    ///
    /// ```
    /// use gort::chan::{RecvError, Select, bounded};
    ///
    /// let (s, r) = bounded::<i32>(0);
    /// drop(s);
    /// let mut sel = Select::new();
    /// sel.recv(&r);
    /// assert_eq!(sel.select().recv(&r), Err(RecvError));
    /// ```
    pub fn recv<T>(self, r: &Receiver<T>) -> Result<T, RecvError> {
        assert!(self.is_of(ptr::from_ref(r).cast()), "passed a receiver that wasn't selected");
        let (outcome, mut payload) = self.complete();
        match outcome {
            // SAFETY: the receive is done, so the payload holds a message of this receiver. It is taken out
            // once.
            Outcome::Done => Ok(unsafe { payload.as_mut_ptr().cast::<T>().read() }),
            _ => Err(RecvError),
        }
    }

    fn is_of(&self, handle: *const u8) -> bool {
        ptr::from_ref(self.handle).cast::<u8>() == handle
    }

    /// Takes the operation apart without running its drop.
    fn complete(self) -> (Outcome, Payload) {
        let this = mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped any more.
        (this.outcome, unsafe { ptr::read(&raw const this.payload) })
    }
}

impl fmt::Debug for SelectedOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SelectedOperation { .. }")
    }
}

impl Drop for SelectedOperation<'_> {
    fn drop(&mut self) {
        let is_message = self.outcome == Outcome::Done;
        // A message may not be `Send`: drop it only where its receive was added, and leak it elsewhere.
        if !is_message || self.owner == Owner::One(Waiter::current()) {
            // SAFETY: the outcome is that of this operation, and is used once.
            unsafe { self.handle.cancel(self.outcome, self.payload.as_mut_ptr()) };
        }
        if !std::thread::panicking() {
            panic!("dropped `SelectedOperation` without completing the operation");
        }
    }
}
