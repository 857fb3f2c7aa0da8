//! Unbounded channels: linked blocks of messages, with a lock at each end.
//!
//! Senders contend for the tail's lock, receivers for the head's. The two sides share only the positions of
//! the ends, which count messages. All waiters are queued behind the tail's lock:
//!
//! - L1. A receiver queues itself only after it has seen, under the tail's lock, that the channel is empty.
//!   Senders serve queued receivers before they append. So receivers wait only while the channel is empty,
//!   and none is woken in vain.
//! - L2. Messages `head.position .. tail.position` are filled, in blocks that are linked from the block of
//!   the head on. A sender stores the tail's position (Release) after it has written the message and the link
//!   to its block. A receiver loads that position (Acquire) before it reads them.
//! - L3. Each end points to the block of the last message that passed it, and steps to the next block only
//!   when it needs a place there. So a sender links a new block and fills its first place under one hold of
//!   the lock, and the head looks for a next block only after that.
//!
//! A bounded channel whose ring would be very large is such a list with a limit. For it:
//!
//! - L4. A sender queues itself only after it has seen, under the tail's lock, that messages and reservations
//!   reach the limit. A receiver that took a message takes the tail's lock afterwards. If a sender is queued,
//!   the receiver turns the room into a reservation for it. The sender then appends its message itself: it
//!   may need a new block, and nothing is allocated under a lock.

pub(crate) mod block;
mod select;

use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};
use std::time::Instant;

use crate::base::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::base::lock::{Guard, Lock, Rank, Ranked};
use crate::chan::errors::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use crate::chan::flavors::discard::discard_all;
use crate::chan::flavors::list::block::{BLOCK, Block};
use crate::chan::flavors::pad::Pad;
use crate::chan::waitq::{Kind, Outcome, Parker, Side, Wakes};
use crate::sched::park::channel_op::Inside;
use crate::sched::run::runtime_section::Entered;
use crate::sched::word::status::WaitReason;

/// The bit of the tail's position that says that the channel is closed. The count of messages is above it.
const CLOSED: usize = 1;
/// One message, in units of a position.
const ONE: usize = 2;

/// Where an end of the chain is: the block of the last message that passed it, and how many places of that
/// block it has passed.
struct Place<T> {
    block: Option<NonNull<Block<T>>>,
    used: usize,
}

// SAFETY: the blocks belong to the channel, which is shared only if `T: Send`.
unsafe impl<T> Send for Place<T> {}

impl<T> Place<T> {
    const fn new() -> Place<T> {
        Place { block: None, used: BLOCK }
    }
}

pub(super) struct Tail<T> {
    place: Place<T>,
    pub(super) receivers: Side,
    pub(super) senders: Side,
    /// Places promised to sends that have not used them yet.
    pub(super) reserved: usize,
}

impl<T> Ranked for Tail<T> {
    const RANK: Rank = Rank::Alone;
}

struct Head<T> {
    place: Place<T>,
    /// The tail's position when the head last loaded it. Messages before it can be taken without another
    /// load.
    seen: usize,
}

impl<T> Ranked for Head<T> {
    const RANK: Rank = Rank::Alone;
}

/// One end of the channel. The padding keeps it in another cache line than the other end.
#[repr(C)]
pub(super) struct End<S> {
    pub(super) lock: Lock<S>,
    /// `ONE` for each message that ever passed this end and, at the tail, `CLOSED`. Written under the lock.
    position: AtomicUsize,
    _pad: Pad,
}

impl<S: Ranked> End<S> {
    fn new(state: S) -> End<S> {
        End { lock: Lock::new(state), position: AtomicUsize::new(0), _pad: Pad::new() }
    }
}

/// The result of an attempt to append.
enum Append {
    Done(Wakes),
    Full,
    Disconnected,
    /// A new block is needed: allocate one outside the lock and try again.
    NoMemory,
}

/// An unbounded channel, or a bounded one of huge capacity.
pub(crate) struct List<T> {
    pub(super) tail: End<Tail<T>>,
    head: End<Head<T>>,
    /// The first block, where the head starts. Written once, under the tail's lock.
    first: AtomicPtr<Block<T>>,
    /// An empty block to be reused, or null.
    spare: AtomicPtr<Block<T>>,
    /// The capacity of a bounded channel.
    pub(super) limit: Option<usize>,
}

impl<T> List<T> {
    /// Creates a channel for at most `limit` messages; `None` means any number.
    pub(crate) fn new(limit: Option<usize>) -> List<T> {
        List {
            tail: End::new(Tail {
                place: Place::new(),
                receivers: Side::new(),
                senders: Side::new(),
                reserved: 0,
            }),
            head: End::new(Head { place: Place::new(), seen: 0 }),
            first: AtomicPtr::new(ptr::null_mut()),
            spare: AtomicPtr::new(ptr::null_mut()),
            limit,
        }
    }

    pub(crate) fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    // Sending.

    #[inline]
    pub(crate) fn try_send(&self, msg: T) -> Result<(), TrySendError<T>> {
        let msg = ManuallyDrop::new(msg);
        match self.send_from(&raw const *msg, Room::Try) {
            Outcome::Done => Ok(()),
            Outcome::Disconnected => Err(TrySendError::Disconnected(ManuallyDrop::into_inner(msg))),
            _ => Err(TrySendError::Full(ManuallyDrop::into_inner(msg))),
        }
    }

    #[inline]
    pub(crate) fn send(&self, msg: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        let msg = ManuallyDrop::new(msg);
        // Only a channel with a limit can make a sender wait.
        let room = match self.limit {
            None => Room::Try,
            Some(_) => Room::Wait(Parker::new(WaitReason::ChanSend, self.address(), deadline)),
        };
        match self.send_from(&raw const *msg, room) {
            Outcome::Done => Ok(()),
            Outcome::Disconnected => Err(SendTimeoutError::Disconnected(ManuallyDrop::into_inner(msg))),
            _ => Err(SendTimeoutError::Timeout(ManuallyDrop::into_inner(msg))),
        }
    }

    /// Sends a message into a reserved place. The outcome is `Done`, or `Disconnected` if the channel was
    /// closed meanwhile; then the message still belongs to the caller.
    pub(crate) fn send_reserved(&self, msg: *const T) -> Outcome {
        self.send_from(msg, Room::Reserved)
    }

    /// Sends a message into an unbounded channel, which needs no reservation. The outcome is as for
    /// `send_reserved`.
    pub(crate) fn send_free(&self, msg: *const T) -> Outcome {
        self.send_from(msg, Room::Try)
    }

    /// Sends a message. `Done` means that the message was given away, `Pending` that there was no room (in
    /// time).
    #[inline]
    fn send_from(&self, msg: *const T, mut room: Room) -> Outcome {
        let mut memory = None;
        let outcome = loop {
            let mut tail = self.tail.lock.lock();
            match self.append(&mut tail, msg, &room, &mut memory) {
                Append::Done(wakes) => {
                    drop(tail);
                    wakes.fire();
                    break Outcome::Done;
                }
                Append::Disconnected => break Outcome::Disconnected,
                Append::NoMemory => {
                    drop(tail);
                    memory = Some(Block::new());
                }
                Append::Full => match room {
                    Room::Wait(parker) => match self.wait_for_room(tail, parker) {
                        Outcome::Credit => room = Room::Reserved,
                        outcome => break outcome,
                    },
                    Room::Try | Room::Reserved => break Outcome::Pending,
                },
            }
        };
        if let Some(block) = memory {
            self.recycle(block);
        }
        outcome
    }

    /// Hands the message to a waiting receiver or appends it.
    #[inline]
    fn append(
        &self,
        tail: &mut Tail<T>,
        msg: *const T,
        room: &Room,
        memory: &mut Option<NonNull<Block<T>>>,
    ) -> Append {
        let position = self.tail.position.load(Ordering::Relaxed);
        let reserved = usize::from(matches!(room, Room::Reserved));
        if position & CLOSED != 0 {
            tail.reserved -= reserved;
            return Append::Disconnected;
        }
        let mut wakes = Wakes::new();
        if let Some(node) = tail.receivers.ops.claim() {
            // SAFETY: the node is claimed, and a receiver's slot has room for a message of our type. The
            // caller gives the message away.
            unsafe {
                ptr::copy_nonoverlapping(msg, (*node.as_ptr()).slot().cast::<T>(), 1);
                wakes.add(node, Outcome::Done);
            }
            tail.reserved -= reserved;
            self.grant(tail, &mut wakes);
            return Append::Done(wakes);
        }
        if reserved == 0 && !self.has_room(tail) {
            return Append::Full;
        }
        if tail.place.used == BLOCK && !self.link(tail, memory) {
            return Append::NoMemory;
        }
        let Place { block: Some(block), used } = tail.place else { unreachable!("linked above") };
        // SAFETY: the block is alive. The place lies beyond the tail, so it is empty and ours (L2).
        unsafe { block.as_ref().place(used).write(msg) };
        tail.place.used += 1;
        tail.reserved -= reserved;
        // Release pairs with the Acquire in `try_recv_to`: L2.
        self.tail.position.store(position + ONE, Ordering::Release);
        tail.receivers.watchers.claim_all(Outcome::Done, &mut wakes);
        Append::Done(wakes)
    }

    /// Links a new block behind the tail's full one. Returns false if no block is at hand.
    #[cold]
    fn link(&self, tail: &mut Tail<T>, memory: &mut Option<NonNull<Block<T>>>) -> bool {
        // Acquire pairs with the Release in `recycle`: the block's last user is done with it.
        let spare = || NonNull::new(self.spare.swap(ptr::null_mut(), Ordering::Acquire));
        let Some(block) = memory.take().or_else(spare) else { return false };
        match tail.place.block {
            // Published together with the position of the block's first message.
            None => self.first.store(block.as_ptr(), Ordering::Relaxed),
            // SAFETY: the head leaves a block only when the next one is linked and has a message (L3), so
            // this block is alive.
            Some(last) => unsafe { last.as_ref() }.set_next(block.as_ptr()),
        }
        tail.place = Place { block: Some(block), used: 0 };
        true
    }

    /// Keeps an empty block for reuse, or frees it if there is one already. No lock may be held.
    #[cold]
    fn recycle(&self, block: NonNull<Block<T>>) {
        // SAFETY: the block is alive, and only the caller uses it.
        unsafe { block.as_ref() }.set_next(ptr::null_mut());
        // Release pairs with the Acquire in `link`.
        let kept = self.spare.compare_exchange(
            ptr::null_mut(),
            block.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        if kept.is_err() {
            // SAFETY: only the caller uses the block.
            unsafe { Block::free(block) };
        }
    }

    /// Do messages and reservations leave room? The caller holds the tail's lock.
    #[inline]
    pub(super) fn has_room(&self, tail: &Tail<T>) -> bool {
        self.limit.is_none_or(|limit| self.len_at_tail().saturating_add(tail.reserved) < limit)
    }

    /// The number of messages. It may be too high, because receivers take messages meanwhile. The caller
    /// holds the tail's lock.
    fn len_at_tail(&self) -> usize {
        (self.tail.position.load(Ordering::Relaxed) - self.head.position.load(Ordering::Relaxed)) / ONE
    }

    /// Turns free room into reservations for the senders that wait for it. If room is left, tells those who
    /// watch for it. The caller holds the tail's lock.
    pub(super) fn grant(&self, tail: &mut Tail<T>, wakes: &mut Wakes) {
        if self.limit.is_none() || tail.senders.is_empty() {
            return;
        }
        while self.has_room(tail) {
            let Some(node) = tail.senders.ops.claim() else {
                tail.senders.watchers.claim_all(Outcome::Done, wakes);
                return;
            };
            tail.reserved += 1;
            // SAFETY: the node was just claimed.
            unsafe { wakes.add(node, Outcome::Credit) };
        }
    }

    #[cold]
    fn wait_for_room(&self, mut tail: Guard<'_, Tail<T>, Entered>, parker: Parker) -> Outcome {
        parker.wait(
            ptr::null_mut(),
            // SAFETY: the parker keeps the node alive until it is claimed or retracted.
            |node| unsafe {
                tail.senders.ops.push_back(node);
                drop(tail);
                Wakes::new()
            },
            // SAFETY: the node is alive, and was queued there with this kind.
            |node| unsafe { self.dequeue_send(&Inside::enter(), node, Kind::Op) },
        )
    }

    // Receiving.

    #[inline]
    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut msg = MaybeUninit::<T>::uninit();
        // SAFETY: `msg` has room for a message.
        match unsafe { self.try_recv_to(msg.as_mut_ptr()) } {
            // SAFETY: the receive is done, so `msg` holds a message.
            Outcome::Done => Ok(unsafe { msg.assume_init() }),
            Outcome::Disconnected => Err(TryRecvError::Disconnected),
            _ => Err(TryRecvError::Empty),
        }
    }

    #[inline]
    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut msg = MaybeUninit::<T>::uninit();
        // SAFETY: `msg` has room for a message.
        let outcome = match unsafe { self.try_recv_to(msg.as_mut_ptr()) } {
            Outcome::Pending => self.wait_for_message(msg.as_mut_ptr(), deadline),
            outcome => outcome,
        };
        match outcome {
            // SAFETY: the receive is done, so `msg` holds a message.
            Outcome::Done => Ok(unsafe { msg.assume_init() }),
            Outcome::Disconnected => Err(RecvTimeoutError::Disconnected),
            _ => Err(RecvTimeoutError::Timeout),
        }
    }

    /// Takes the oldest message. The outcome is `Done`, `Disconnected` or, if there is none, `Pending`.
    ///
    /// # Safety
    /// `to` may be written to.
    #[inline]
    pub(crate) unsafe fn try_recv_to(&self, to: *mut T) -> Outcome {
        let mut head = self.head.lock.lock();
        let position = self.head.position.load(Ordering::Relaxed);
        if position == head.seen {
            // Acquire pairs with the Release in `append` (L2) and in `close`.
            let tail = self.tail.position.load(Ordering::Acquire);
            head.seen = tail & !CLOSED;
            if position == head.seen {
                return if tail & CLOSED != 0 { Outcome::Disconnected } else { Outcome::Pending };
            }
        }
        let left = if head.place.used == BLOCK { self.step(&mut head.place) } else { None };
        let Place { block: Some(block), used } = head.place else { unreachable!("there is a message") };
        // SAFETY: the block is alive. The place lies before the tail's position and beyond the head's, so it
        // is filled and ours (L2).
        unsafe { block.as_ref().place(used).read(to) };
        head.place.used += 1;
        // Relaxed: other threads use this position only to count messages.
        self.head.position.store(position + ONE, Ordering::Relaxed);
        drop(head);
        if let Some(block) = left {
            self.recycle(block);
        }
        if self.limit.is_some() {
            self.made_room();
        }
        Outcome::Done
    }

    /// Moves the head to the next block, which has a message. Returns the block that it leaves.
    #[cold]
    fn step(&self, place: &mut Place<T>) -> Option<NonNull<Block<T>>> {
        let left = place.block;
        let next = match left {
            None => self.first.load(Ordering::Relaxed),
            // SAFETY: the head's block is alive. Its link was published with the message behind it (L2).
            Some(block) => unsafe { block.as_ref() }.next(),
        };
        *place = Place { block: NonNull::new(next), used: 0 };
        left
    }

    #[cold]
    fn made_room(&self) {
        let mut wakes = Wakes::new();
        self.grant(&mut self.tail.lock.lock(), &mut wakes);
        wakes.fire();
    }

    #[cold]
    fn wait_for_message(&self, to: *mut T, deadline: Option<Instant>) -> Outcome {
        let parker = Parker::new(WaitReason::ChanReceive, self.address(), deadline);
        loop {
            let mut tail = self.tail.lock.lock();
            if self.is_recv_ready() {
                drop(tail);
                // SAFETY: the caller's promise.
                match unsafe { self.try_recv_to(to) } {
                    Outcome::Pending => continue,
                    outcome => return outcome,
                }
            }
            return parker.wait(
                to.cast(),
                // SAFETY: the parker keeps the node alive until it is claimed or retracted.
                |node| unsafe {
                    tail.receivers.ops.push_back(node);
                    drop(tail);
                    Wakes::new()
                },
                // SAFETY: the node is alive, and was queued there with this kind.
                |node| unsafe { self.dequeue_recv(&Inside::enter(), node, Kind::Op) },
            );
        }
    }

    // The channel as a whole.

    /// The numbers of operations that wait: sends, receives.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.tail.lock.lock();
        (state.senders.ops.len(), state.receivers.ops.len())
    }

    /// Closes the channel: nothing can be sent from now on, and all waiters are woken. Returns false if it
    /// was closed before.
    pub(crate) fn close(&self) -> bool {
        let mut tail = self.tail.lock.lock();
        let position = self.tail.position.load(Ordering::Relaxed);
        if position & CLOSED != 0 {
            return false;
        }
        // Release pairs with the Acquire loads of the position: a thread that sees the close also sees what
        // came before it.
        self.tail.position.store(position | CLOSED, Ordering::Release);
        let mut wakes = Wakes::new();
        tail.senders.disconnect(&mut wakes);
        while tail.receivers.disconnect_some(&mut wakes) {
            drop(tail);
            std::mem::replace(&mut wakes, Wakes::new()).fire();
            tail = self.tail.lock.lock();
        }
        drop(tail);
        wakes.fire();
        true
    }

    /// Closes the channel and drops the buffered messages.
    pub(crate) fn close_and_discard(&self) {
        self.close();
        discard_all(|| self.try_recv());
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire pairs with the Release in `close`.
        self.tail.position.load(Ordering::Acquire) & CLOSED != 0
    }

    pub(crate) fn len(&self) -> usize {
        loop {
            // Acquire: the second load of the tail must not be reordered before the load of the head.
            let tail = self.tail.position.load(Ordering::Acquire);
            let head = self.head.position.load(Ordering::Acquire);
            if self.tail.position.load(Ordering::Relaxed) == tail {
                return (tail.wrapping_sub(head) & !CLOSED) / ONE;
            }
        }
    }

    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }

    pub(crate) fn is_recv_ready(&self) -> bool {
        // Acquire pairs with the Release in `append` and `close`. The positions also differ if the channel is
        // closed, because only the tail's has `CLOSED`.
        self.tail.position.load(Ordering::Acquire) != self.head.position.load(Ordering::Relaxed)
    }
}

/// Where the room for a message comes from.
enum Room {
    /// Room that is free now; fail if there is none.
    Try,
    /// Wait for room.
    Wait(Parker),
    /// A reservation that the sender already has.
    Reserved,
}

impl<T> Drop for List<T> {
    fn drop(&mut self) {
        // No handle is left, so nobody waits. Messages are left if a send overlapped with
        // `close_and_discard`.
        discard_all(|| self.try_recv());
        let left = self.head.lock.lock().place.block;
        let spare = NonNull::new(self.spare.load(Ordering::Relaxed));
        for block in [left, spare].into_iter().flatten() {
            // SAFETY: no other user is left. All messages were taken, so the head is in the last block.
            unsafe { Block::free(block) };
        }
    }
}
