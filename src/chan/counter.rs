//! The life of a channel: two counted sides and one allocation.
//!
//! When the last handle of a side goes, that side is disconnected. The side that goes last frees the channel.
//!
//! Every handle is the address of that allocation: the search for leaks (`sched/leak/`) relies on it.

use std::ops::{Deref, Range};
use std::process::abort;

use crate::atomic::{AtomicU32, AtomicUsize, Ordering};

/// More handles than this cannot be counted safely; a program that leaks them in a loop is stopped.
const MAX_HANDLES: usize = usize::MAX / 2;

#[repr(C)]
struct Counter<C> {
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// How many sides are gone: 0, 1 or 2.
    gone: AtomicU32,
    /// The size of `channel`, which follows at once: see [`allocation`].
    bytes: u32,
    channel: C,
}

/// What comes before the channel.
const HEAD: usize = size_of::<Counter<()>>();

/// The addresses of the allocation that has its channel at `channel`.
///
/// # Safety
/// There is a channel made by [`new`].
pub(crate) unsafe fn allocation(channel: usize) -> Range<usize> {
    // SAFETY: the caller's promise; `new` checks that this is where the size is.
    let bytes = unsafe { *((channel - size_of::<u32>()) as *const u32) };
    channel - HEAD..channel + bytes as usize
}

/// Whether one of its sides is gone: whoever waits there is about to be woken.
///
/// # Safety
/// There is a channel made by [`new`].
pub(crate) unsafe fn is_disconnected(channel: usize) -> bool {
    // SAFETY: the caller's promise; what comes before the channel does not depend on it.
    let head = unsafe { &*((channel - HEAD) as *const Counter<()>) };
    head.senders.load(Ordering::Relaxed) == 0 || head.receivers.load(Ordering::Relaxed) == 0
}

/// A channel with one handle on each side.
pub(crate) fn new<C>(channel: C) -> (SenderSide<C>, ReceiverSide<C>) {
    const {
        assert!(std::mem::offset_of!(Counter<C>, channel) == HEAD && size_of::<C>() <= u32::MAX as usize);
    }
    let counter = Box::into_raw(Box::new(Counter {
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
        gone: AtomicU32::new(0),
        bytes: size_of::<C>() as u32,
        channel,
    }));
    (SenderSide { counter }, ReceiverSide { counter })
}

/// Counts a side as gone, even if a message panicked while it was dropped.
struct Leave<C> {
    counter: *mut Counter<C>,
    panicked: bool,
}

impl<C> Drop for Leave<C> {
    fn drop(&mut self) {
        // AcqRel: whoever frees the channel sees all that the other side did.
        // SAFETY: a side is counted as gone once, so the channel is alive until the second comes here.
        unsafe {
            let last = (*self.counter).gone.fetch_add(1, Ordering::AcqRel) == 1;
            // After a panic the rest is leaked: another panic now would end the process.
            if last && !self.panicked {
                drop(Box::from_raw(self.counter));
            }
        }
    }
}

macro_rules! side {
    ($(#[$doc:meta])* $name:ident, $count:ident) => {
        $(#[$doc])*
        pub(crate) struct $name<C> {
            // Not `NonNull`: a channel must be invariant in its messages.
            counter: *mut Counter<C>,
        }

        impl<C> $name<C> {
            /// One more handle.
            pub(crate) fn acquire(&self) -> $name<C> {
                // SAFETY: we are a handle, so the channel is alive.
                let before = unsafe { (*self.counter).$count.fetch_add(1, Ordering::Relaxed) };
                if before > MAX_HANDLES {
                    abort();
                }
                $name { counter: self.counter }
            }

            /// One handle less; `disconnect` if it was the last of this side.
            ///
            /// # Safety
            /// The handle is not used afterwards.
            pub(crate) unsafe fn release(&self, disconnect: impl FnOnce(&C)) {
                // AcqRel: what was done through the other handles of this side comes before the disconnect.
                // SAFETY: we are a handle, so the channel is alive.
                if unsafe { (*self.counter).$count.fetch_sub(1, Ordering::AcqRel) } == 1 {
                    let mut leave = Leave { counter: self.counter, panicked: true };
                    disconnect(self);
                    leave.panicked = false;
                }
            }

            /// Do both belong to the same channel?
            pub(crate) fn same(&self, other: &$name<C>) -> bool {
                self.counter == other.counter
            }
        }

        impl<C> Deref for $name<C> {
            type Target = C;

            #[inline]
            fn deref(&self) -> &C {
                // SAFETY: we are a handle, so the channel is alive.
                unsafe { &(*self.counter).channel }
            }
        }
    };
}

side! {
    /// A handle of the sending side.
    SenderSide, senders
}
side! {
    /// A handle of the receiving side.
    ReceiverSide, receivers
}
