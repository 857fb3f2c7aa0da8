//! The life of a channel: two counted sides and one allocation.
//!
//! When the last handle of a side goes, that side is disconnected. The side that goes last frees the channel.

use std::ops::Deref;
use std::process::abort;

use crate::atomic::{AtomicUsize, Ordering};

/// More handles than this cannot be counted safely; a program that leaks them in a loop is stopped.
const MAX_HANDLES: usize = usize::MAX / 2;

struct Counter<C> {
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// How many sides are gone: 0, 1 or 2.
    gone: AtomicUsize,
    channel: C,
}

/// A channel with one handle on each side.
pub(crate) fn new<C>(channel: C) -> (SenderSide<C>, ReceiverSide<C>) {
    let counter = Box::into_raw(Box::new(Counter {
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
        gone: AtomicUsize::new(0),
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
