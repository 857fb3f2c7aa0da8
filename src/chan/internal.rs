//! What the expansions of `select!` and `select_biased!` call. Not part of the public surface.
//!
//! An expansion evaluates its handles, makes a case of each, and lets [`select`] choose: no allocation, however
//! many cases, and no unsafe code in the user's crate. The message of a receive lies in its case; a send is
//! completed with a message that is made only then.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use crate::chan::engine::{self, Nodes, Patience, Slot, in_order};
use crate::chan::errors::{RecvError, SendError};
use crate::chan::handle::Handle;
use crate::chan::receiver::Receiver;
use crate::chan::sender::Sender;
use crate::chan::waitq::Outcome;

pub use crate::chan::engine::Op as Case;
pub use gort_macros::__select as expand;

/// A receive of a select.
pub struct RecvCase<'a, T> {
    receiver: &'a Receiver<T>,
    message: UnsafeCell<MaybeUninit<T>>,
    taken: Cell<bool>,
}

/// A send of a select.
pub struct SendCase<'a, T> {
    sender: &'a Sender<T>,
}

/// The case that was selected. Used up by that case.
#[must_use]
pub struct Chosen {
    index: usize,
    /// Of the message, or of the sender.
    address: *const u8,
    outcome: Outcome,
}

/// A send that was selected and waits for its message. If that never comes, because its expression panics or
/// leaves, the place in the channel is given back.
#[must_use]
pub struct ChosenSend<'a, T> {
    sender: &'a Sender<T>,
    outcome: Outcome,
}

impl<'a, T> RecvCase<'a, T> {
    #[inline]
    pub fn new(receiver: &'a Receiver<T>) -> RecvCase<'a, T> {
        RecvCase { receiver, message: UnsafeCell::new(MaybeUninit::uninit()), taken: Cell::new(false) }
    }

    #[inline]
    pub fn case(&self, index: usize) -> Case<'_> {
        Case { handle: self.receiver.handle(), index, slot: Slot::Own(self.message.get().cast()) }
    }

    /// Takes the message.
    #[inline]
    pub fn finish(&self, chosen: Chosen) -> Result<T, RecvError> {
        assert!(ptr::addr_eq(chosen.address, self.message.get()), "gort: the case was not selected");
        assert!(!self.taken.replace(true), "gort: a case is for one select");
        match chosen.outcome {
            // SAFETY: a select put a message here, and it is taken once.
            Outcome::Done => Ok(unsafe { self.message.get().cast::<T>().read() }),
            _ => Err(RecvError),
        }
    }
}

impl<'a, T> SendCase<'a, T> {
    #[inline]
    pub fn new(sender: &'a Sender<T>) -> SendCase<'a, T> {
        SendCase { sender }
    }

    #[inline]
    pub fn case(&self, index: usize) -> Case<'_> {
        Case { handle: self.sender, index, slot: Slot::Send }
    }

    #[inline]
    pub fn finish(&self, chosen: Chosen) -> ChosenSend<'a, T> {
        assert!(ptr::addr_eq(chosen.address, self.sender), "gort: the case was not selected");
        ChosenSend { sender: self.sender, outcome: chosen.outcome }
    }
}

impl<T> ChosenSend<'_, T> {
    #[inline]
    pub fn send(self, msg: T) -> Result<(), SendError<T>> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the outcome of an operation of this sender, used once.
        unsafe { this.sender.complete(this.outcome, msg) }
    }
}

impl<T> Drop for ChosenSend<'_, T> {
    fn drop(&mut self) {
        // SAFETY: as in `send`, which does not drop.
        unsafe { self.sender.cancel(self.outcome, ptr::null_mut()) };
    }
}

impl Chosen {
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }
}

#[inline]
fn run<const N: usize>(cases: [Case<'_>; N], biased: bool, patience: Patience) -> Option<Chosen> {
    let mut order = const { in_order::<N>() };
    let mut nodes = [const { MaybeUninit::uninit() }; N];
    // SAFETY: the slots are those of the cases, which fit their messages. The cases are borrowed.
    let (place, outcome) = unsafe {
        engine::select(&cases, &mut order, ptr::null_mut(), Nodes::Given(&mut nodes), patience, biased)?
    };
    let op = &cases[place];
    let address = match op.slot {
        Slot::Own(slot) => slot.cast_const(),
        _ => ptr::from_ref(op.handle).cast(),
    };
    Some(Chosen { index: op.index, address, outcome })
}

/// Waits for one of the cases.
#[inline]
pub fn select<const N: usize>(cases: [Case<'_>; N], biased: bool) -> Chosen {
    run(cases, biased, Patience::Forever).expect("gort: an endless select ended")
}

/// One of the cases, if one is ready.
#[inline]
pub fn try_select<const N: usize>(cases: [Case<'_>; N], biased: bool) -> Option<Chosen> {
    run(cases, biased, Patience::None)
}

/// One of the cases, if one is ready in time.
#[inline]
pub fn select_timeout<const N: usize>(
    cases: [Case<'_>; N],
    biased: bool,
    timeout: Duration,
) -> Option<Chosen> {
    run(cases, biased, Patience::after(timeout))
}
