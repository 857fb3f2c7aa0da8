//! Bounded channels: a lock-free [`Ring`] and, behind a lock, two queues for operations that have to wait.
//!
//! An operation tries the ring first. It takes the lock only if a flag in the ring tells it to, or if it has
//! to wait. These invariants hold whenever the lock is released:
//!
//! - A1. If a receiver is queued, `tail` carries `WAITING` and the ring is empty. (The ring was empty when
//!   the receiver set the flag, see `ring.rs`. Since then only holders of the lock send, and they serve
//!   waiting receivers first.)
//! - A2. If a sender is queued, `head` carries `WAITING` and there is no room: messages and reservations fill
//!   the capacity. (Since the sender set the flag, only holders of the lock receive, and they refill the ring
//!   from the queue.)
//! - A3. `reserved` places are promised to selects that have chosen to send here but do not have their
//!   message yet. While there are any, `tail` carries `HELD`, so that no sender takes the room without
//!   counting them.
//! - A4. `tail` carries `WAITING` only if a receiver is queued, and `head` only if a sender is.
//!
//! So messages are handed over directly: a sender copies its message into the slot of a queued receiver; a
//! receiver takes the oldest message and puts the message of a queued sender in its place. Both queues are
//! served in the order of arrival.
//!
//! A slot is `Busy` while its last user is interrupted in the middle of an operation. No operation waits for
//! that under the lock, nor retries under the lock after it lost a race: it releases the lock, backs off and
//! starts again.

pub(crate) mod ring;
mod select;

use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::time::Instant;

use crate::base::lock::{Guard, Lock, Rank, Ranked};
use crate::chan::errors::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use crate::chan::flavors::array::ring::{CLOSED, Front, HELD, Pop, Push, Ring, WAITING};
use crate::chan::flavors::discard::discard_all;
use crate::chan::flavors::relax::Relax;
use crate::chan::waitq::{Kind, Node, Outcome, Parker, Side, Wakes};
use crate::sched::word::status::WaitReason;

pub(super) struct State {
    pub(super) receivers: Side,
    pub(super) senders: Side,
    /// Places promised to selects (A3).
    pub(super) reserved: usize,
}

impl Ranked for State {
    const RANK: Rank = Rank::Alone;
}

/// The result of an operation under the lock.
enum Locked {
    Done(Wakes),
    /// No room for a send, or no message for a receive.
    Blocked,
    Disconnected,
    /// The slot is busy, or another operation won the race: release the lock and try again.
    Busy,
}

/// A bounded channel.
pub(crate) struct Array<T> {
    pub(super) ring: Ring<T>,
    pub(super) state: Lock<State>,
}

impl<T> Array<T> {
    pub(crate) fn new(capacity: usize) -> Array<T> {
        let state = State { receivers: Side::new(), senders: Side::new(), reserved: 0 };
        Array { ring: Ring::new(capacity), state: Lock::new(state) }
    }

    pub(crate) fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    // Sending.

    #[inline]
    pub(crate) fn try_send(&self, msg: T) -> Result<(), TrySendError<T>> {
        let msg = ManuallyDrop::new(msg);
        // SAFETY: the message is taken back below unless the ring took it.
        let result = match unsafe { self.ring.push(&raw const *msg) } {
            Push::Done => return Ok(()),
            Push::Full => Outcome::Pending,
            Push::Flagged | Push::Busy => self.send_slow(&raw const *msg, None),
        };
        match result {
            Outcome::Done => Ok(()),
            Outcome::Disconnected => Err(TrySendError::Disconnected(ManuallyDrop::into_inner(msg))),
            _ => Err(TrySendError::Full(ManuallyDrop::into_inner(msg))),
        }
    }

    #[inline]
    pub(crate) fn send(&self, msg: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        let msg = ManuallyDrop::new(msg);
        // SAFETY: the message is taken back below unless the ring took it.
        if unsafe { self.ring.push(&raw const *msg) } == Push::Done {
            return Ok(());
        }
        let parker = Parker::new(WaitReason::ChanSend, self.address(), deadline);
        match self.send_slow(&raw const *msg, Some(parker)) {
            Outcome::Done => Ok(()),
            Outcome::Disconnected => Err(SendTimeoutError::Disconnected(ManuallyDrop::into_inner(msg))),
            _ => Err(SendTimeoutError::Timeout(ManuallyDrop::into_inner(msg))),
        }
    }

    /// Sends under the lock, and waits if there is a `parker`. `Done` means that the message was given away,
    /// `Pending` that there was no room (in time).
    #[cold]
    fn send_slow(&self, msg: *const T, parker: Option<Parker>) -> Outcome {
        let mut relax = Relax::new();
        loop {
            let mut state = self.state.lock();
            match self.push_locked(&mut state, msg) {
                Locked::Done(wakes) => {
                    drop(state);
                    wakes.fire();
                    return Outcome::Done;
                }
                Locked::Disconnected => return Outcome::Disconnected,
                Locked::Busy => {
                    drop(state);
                    relax.relax();
                    continue;
                }
                Locked::Blocked => {}
            }
            let Some(parker) = parker else { return Outcome::Pending };
            if !self.stop_receivers(&state) {
                continue;
            }
            return parker.wait(
                msg.cast_mut().cast(),
                // SAFETY: the parker keeps the node alive until it is claimed or retracted.
                |node| unsafe {
                    self.publish(state, node, |s| &mut s.senders, Kind::Op);
                    Wakes::new()
                },
                // SAFETY: the node is alive, and was queued there with this kind.
                |node| unsafe { self.retract(node, |s| &mut s.senders, Kind::Op) },
            );
        }
    }

    /// Hands the message to a waiting receiver or puts it into the ring.
    fn push_locked(&self, state: &mut State, msg: *const T) -> Locked {
        let tail = self.ring.tail();
        if tail.has(CLOSED) {
            return Locked::Disconnected;
        }
        if tail.has(WAITING)
            && let Some(wakes) = self.hand_over(state, msg)
        {
            return Locked::Done(wakes);
        }
        if state.reserved > 0 && !self.has_room(state) {
            return Locked::Blocked;
        }
        // SAFETY: the caller gives the message away if the result is `Done`.
        match unsafe { self.ring.try_push(msg, WAITING | HELD) } {
            Some(Push::Done) => Locked::Done(self.filled(state)),
            Some(Push::Full) => Locked::Blocked,
            Some(Push::Busy) | None => Locked::Busy,
            Some(Push::Flagged) => Locked::Disconnected,
        }
    }

    /// Copies the message to the first waiting receiver, if there still is one.
    pub(super) fn hand_over(&self, state: &mut State, msg: *const T) -> Option<Wakes> {
        let node = state.receivers.ops.claim()?;
        let mut wakes = Wakes::new();
        // SAFETY: the node is claimed, and a receiver's slot has room for a message of our type. The caller
        // gives the message away.
        unsafe {
            ptr::copy_nonoverlapping(msg, (*node.as_ptr()).slot().cast::<T>(), 1);
            wakes.add(node, Outcome::Done);
        }
        self.settle_tail_flag(state);
        Some(wakes)
    }

    /// A message came into the ring, and no receiver is queued for it: claims those who watch for one.
    pub(super) fn filled(&self, state: &mut State) -> Wakes {
        let mut wakes = Wakes::new();
        state.receivers.watchers.claim_all(Outcome::Done, &mut wakes);
        self.settle_tail_flag(state);
        wakes
    }

    /// Do messages and reservations leave room? Exact while `tail` carries a flag.
    pub(super) fn has_room(&self, state: &State) -> bool {
        self.ring.len_between(self.ring.head(), self.ring.tail()) + state.reserved < self.ring.capacity()
    }

    /// Sets `WAITING` in `head`, which makes receivers take the lock. Returns false, with nothing changed, if
    /// there is room after all.
    pub(super) fn stop_receivers(&self, state: &State) -> bool {
        let head = self.ring.flag_head(WAITING);
        let tail = self.ring.tail();
        if self.ring.len_between(head, tail) + state.reserved >= self.ring.capacity() {
            return true;
        }
        self.settle_head_flag(state);
        false
    }

    /// Clears `WAITING` in `tail` if no receiver is queued any more (A4).
    pub(super) fn settle_tail_flag(&self, state: &State) {
        if state.receivers.is_empty() && self.ring.tail().has(WAITING) {
            self.ring.unflag_tail(WAITING);
        }
    }

    /// Clears `WAITING` in `head` if no sender is queued any more (A4).
    pub(super) fn settle_head_flag(&self, state: &State) {
        if state.senders.is_empty() && self.ring.head().has(WAITING) {
            self.ring.unflag_head(WAITING);
        }
    }

    // Receiving.

    #[inline]
    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut msg = MaybeUninit::<T>::uninit();
        // SAFETY: `msg` has room for a message.
        let result = match unsafe { self.try_recv_to(msg.as_mut_ptr()) } {
            Outcome::Done => Ok(()),
            Outcome::Disconnected => Err(TryRecvError::Disconnected),
            _ => Err(TryRecvError::Empty),
        };
        // SAFETY: the receive is done, so `msg` holds a message.
        result.map(|()| unsafe { msg.assume_init() })
    }

    /// Like `try_recv`, but moves the message to `to`. The outcome is `Done`, `Disconnected` or, if there is
    /// no message, `Pending`.
    ///
    /// # Safety
    /// `to` may be written to.
    #[inline]
    pub(crate) unsafe fn try_recv_to(&self, to: *mut T) -> Outcome {
        // SAFETY: the caller's promise.
        match unsafe { self.ring.pop(to) } {
            Pop::Done => Outcome::Done,
            Pop::Empty { closed: true } => Outcome::Disconnected,
            Pop::Empty { closed: false } => Outcome::Pending,
            Pop::Flagged | Pop::Busy => self.recv_slow(to, None),
        }
    }

    #[inline]
    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut msg = MaybeUninit::<T>::uninit();
        // SAFETY: `msg` has room for a message.
        if unsafe { self.ring.pop(msg.as_mut_ptr()) } != Pop::Done {
            let parker = Parker::new(WaitReason::ChanReceive, self.address(), deadline);
            match self.recv_slow(msg.as_mut_ptr(), Some(parker)) {
                Outcome::Done => {}
                Outcome::Disconnected => return Err(RecvTimeoutError::Disconnected),
                _ => return Err(RecvTimeoutError::Timeout),
            }
        }
        // SAFETY: the receive is done, so `msg` holds a message.
        Ok(unsafe { msg.assume_init() })
    }

    /// Receives under the lock, and waits if there is a `parker`. `Done` means that `to` holds a message,
    /// `Pending` that there was none (in time).
    #[cold]
    fn recv_slow(&self, to: *mut T, parker: Option<Parker>) -> Outcome {
        let mut relax = Relax::new();
        loop {
            let mut state = self.state.lock();
            match self.pop_locked(&mut state, to) {
                Locked::Done(wakes) => {
                    drop(state);
                    wakes.fire();
                    return Outcome::Done;
                }
                Locked::Disconnected => return Outcome::Disconnected,
                Locked::Busy => {
                    drop(state);
                    relax.relax();
                    continue;
                }
                Locked::Blocked => {}
            }
            let Some(parker) = parker else { return Outcome::Pending };
            if !self.stop_senders(&state) {
                continue;
            }
            return parker.wait(
                to.cast(),
                // SAFETY: the parker keeps the node alive until it is claimed or retracted.
                |node| unsafe {
                    self.publish(state, node, |s| &mut s.receivers, Kind::Op);
                    Wakes::new()
                },
                // SAFETY: the node is alive, and was queued there with this kind.
                |node| unsafe { self.retract(node, |s| &mut s.receivers, Kind::Op) },
            );
        }
    }

    /// Takes the oldest message and gives the freed place to a waiting sender.
    fn pop_locked(&self, state: &mut State, to: *mut T) -> Locked {
        if !self.ring.head().has(WAITING) {
            // SAFETY: the caller's promise.
            return match unsafe { self.ring.try_pop(to, 0) } {
                Some(Pop::Done) => Locked::Done(Wakes::new()),
                Some(Pop::Empty { closed: true }) => Locked::Disconnected,
                Some(Pop::Empty { closed: false }) => Locked::Blocked,
                Some(Pop::Flagged | Pop::Busy) | None => Locked::Busy,
            };
        }
        match self.ring.front() {
            Front::Filled => self.pop_and_refill(state, to),
            Front::Busy => Locked::Busy,
            // The ring is empty and a sender is queued, so all the capacity is reserved. The message of the
            // first queued sender is the next one.
            Front::Empty { closed } => match state.senders.ops.claim_with_slot() {
                Some(node) => {
                    let mut wakes = Wakes::new();
                    // SAFETY: the node is claimed, and its slot holds a message of our type, which we take.
                    unsafe {
                        ptr::copy_nonoverlapping((*node.as_ptr()).slot().cast::<T>(), to, 1);
                        wakes.add(node, Outcome::Done);
                    }
                    self.settle_head_flag(state);
                    Locked::Done(wakes)
                }
                None if closed => Locked::Disconnected,
                None => Locked::Blocked,
            },
        }
    }

    /// The part of `pop_locked` for the case that the front is filled and `head` carries `WAITING`.
    fn pop_and_refill(&self, state: &mut State, to: *mut T) -> Locked {
        if self.ring.tail().has(HELD) && !self.ring.back_is_free() {
            // There is no free slot yet for a queued sender's message, so do not claim a sender.
            return Locked::Busy;
        }
        let mut wakes = Wakes::new();
        let sender = state.senders.ops.claim();
        // SAFETY: the node is claimed, so we may read it.
        let slot = sender.map(|node| unsafe { (*node.as_ptr()).slot().cast::<T>() });
        match (sender, slot) {
            (Some(node), Some(slot)) if !slot.is_null() => {
                // SAFETY: the front is filled, and the sender's slot holds a message of our type. If no room
                // is reserved, the ring is full (A2). Otherwise `tail` carries `HELD`: only we, who hold the
                // lock, can fill the slot at the tail (A3), and it is free.
                unsafe {
                    if self.ring.tail().has(HELD) {
                        self.pop_certainly(to);
                        self.push_certainly(slot);
                    } else {
                        self.ring.exchange(to, slot);
                    }
                    wakes.add(node, Outcome::Done);
                }
            }
            (Some(node), _) => {
                // Reserve the place for the select before the pop makes it visible to other senders.
                self.ring.flag_tail(HELD);
                state.reserved += 1;
                // SAFETY: the front is filled, and the node is claimed.
                unsafe {
                    self.pop_certainly(to);
                    wakes.add(node, Outcome::Credit);
                }
            }
            (None, _) => {
                // SAFETY: the front is filled.
                unsafe { self.pop_certainly(to) };
                state.senders.watchers.claim_all(Outcome::Done, &mut wakes);
            }
        }
        self.settle_head_flag(state);
        Locked::Done(wakes)
    }

    /// # Safety
    /// The front is filled, `head` carries `WAITING`, and `to` may be written to.
    unsafe fn pop_certainly(&self, to: *mut T) {
        // SAFETY: the caller's promise.
        let result = unsafe { self.ring.try_pop(to, WAITING) };
        debug_assert_eq!(result, Some(Pop::Done));
    }

    /// # Safety
    /// The slot at the tail is free, `tail` carries `HELD`, and `from` is a message that the caller gives
    /// away.
    pub(super) unsafe fn push_certainly(&self, from: *const T) {
        // SAFETY: the caller's promise.
        let result = unsafe { self.ring.try_push(from, WAITING | HELD) };
        debug_assert_eq!(result, Some(Push::Done));
    }

    /// Sets `WAITING` in `tail`, which makes senders take the lock. Returns false, with nothing changed, if
    /// there is something to receive or the channel is closed.
    pub(super) fn stop_senders(&self, state: &State) -> bool {
        let tail = self.ring.flag_tail(WAITING);
        if tail.is_at(self.ring.head()) && !tail.has(CLOSED) {
            return true;
        }
        self.settle_tail_flag(state);
        false
    }

    // Waiting.

    /// # Safety
    /// The node's owner follows the rules of `waitq.rs`.
    pub(super) unsafe fn publish<S>(
        &self,
        mut state: Guard<'_, State, S>,
        node: *const Node,
        side: fn(&mut State) -> &mut Side,
        kind: Kind,
    ) {
        // SAFETY: the caller's promise.
        unsafe { side(&mut state).queue(kind).push_back(node) };
    }

    /// # Safety
    /// The node is alive and was published at this side with this kind.
    pub(super) unsafe fn retract(&self, node: *const Node, side: fn(&mut State) -> &mut Side, kind: Kind) {
        let mut state = self.state.lock();
        // SAFETY: the caller's promise.
        unsafe { side(&mut state).queue(kind).remove(node) };
        self.settle_tail_flag(&state);
        self.settle_head_flag(&state);
    }

    // The channel as a whole.

    /// The numbers of operations that wait: sends, receives.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.senders.ops.len(), state.receivers.ops.len())
    }

    /// Closes the channel: nothing can be sent from now on, and all waiters are woken. Returns false if it
    /// was closed before.
    pub(crate) fn close(&self) -> bool {
        let mut state = self.state.lock();
        if self.ring.flag_tail(CLOSED).has(CLOSED) {
            return false;
        }
        let mut wakes = Wakes::new();
        state.senders.disconnect(&mut wakes);
        while state.receivers.disconnect_some(&mut wakes) {
            drop(state);
            std::mem::replace(&mut wakes, Wakes::new()).fire();
            state = self.state.lock();
        }
        self.settle_tail_flag(&state);
        self.settle_head_flag(&state);
        drop(state);
        wakes.fire();
        true
    }

    /// Closes the channel and drops the buffered messages.
    pub(crate) fn close_and_discard(&self) {
        self.close();
        discard_all(|| self.try_recv());
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        // No handle is left, so nobody waits. Messages are left if a send overlapped with
        // `close_and_discard`.
        discard_all(|| self.try_recv());
    }
}
