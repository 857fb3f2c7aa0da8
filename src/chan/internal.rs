//! The functions and types that the expansions of `select!` and `select_biased!` call. Not part of the public
//! API.
//!
//! An expansion evaluates its handles, makes a case of each, and lets [`select`] choose one. This allocates
//! nothing, however many cases there are, and needs no unsafe code in the user's crate. A receive leaves its
//! message in its case. A send is chosen first, and its message is evaluated and sent afterwards.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use crate::chan::errors::{RecvError, SendError};
use crate::chan::receiver::Receiver;
use crate::chan::select::engine::{self, Nodes, Slot, WaitLimit, in_order};
use crate::chan::select::handle::Handle;
use crate::chan::sender::Sender;
use crate::chan::waitq::Outcome;

pub use crate::chan::select::engine::Op as Case;
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

/// The case that was selected. The `finish` of that case consumes it.
#[must_use]
pub struct Chosen {
    index: usize,
    /// The address of the receive case's message, or of the sender: identifies the case.
    address: *const u8,
    outcome: Outcome,
}

/// A send that was selected and waits for its message. If the message never comes, because its expression
/// panics or leaves the select (`return`, `break`, `?`), the drop gives the reserved place back.
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
            // SAFETY: a select put a message here, and `taken` ensures that it is read only once.
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
        // SAFETY: the outcome is that of an operation of this sender, and is used once.
        unsafe { this.sender.complete(this.outcome, msg) }
    }
}

impl<T> Drop for ChosenSend<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the outcome is that of an operation of this sender. It was not used: `send` does not run
        // this drop.
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
fn run<const N: usize>(cases: [Case<'_>; N], biased: bool, limit: WaitLimit) -> Option<Chosen> {
    let mut order = const { in_order::<N>() };
    let mut nodes = [const { MaybeUninit::uninit() }; N];
    // SAFETY: the slots are those of the cases, and each fits its message. The cases stay borrowed during the
    // call.
    let (place, outcome) = unsafe {
        engine::select(&cases, &mut order, ptr::null_mut(), Nodes::Given(&mut nodes), limit, biased)?
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
    run(cases, biased, WaitLimit::Forever).expect("gort: an endless select ended")
}

/// Selects one of the cases if one is ready now.
#[inline]
pub fn try_select<const N: usize>(cases: [Case<'_>; N], biased: bool) -> Option<Chosen> {
    run(cases, biased, WaitLimit::None)
}

/// Selects one of the cases if one becomes ready within `timeout`.
#[inline]
pub fn select_timeout<const N: usize>(
    cases: [Case<'_>; N],
    biased: bool,
    timeout: Duration,
) -> Option<Chosen> {
    run(cases, biased, WaitLimit::after(timeout))
}
