//! The lifetime of a channel: two reference-counted sides that share one allocation.
//!
//! When the last handle of a side is dropped, that side disconnects the channel. The side that leaves last
//! frees it.
//!
//! Every handle is the address of that allocation: the leak search (`diag/leak/`) relies on it.

use std::ops::{Deref, Range};
use std::process::abort;

use crate::base::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The largest number of handles of one side. A program that leaks handles in a loop is aborted here, before
/// the count can overflow.
const MAX_HANDLES: usize = usize::MAX / 2;

#[repr(C)]
struct Counter<C> {
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// How many sides have left: 0, 1 or 2.
    gone: AtomicU32,
    /// The size of `channel` in bytes. Lies directly before `channel`, where [`allocation`] reads it.
    bytes: u32,
    channel: C,
}

/// The size of what lies before the channel, in bytes.
const HEAD: usize = size_of::<Counter<()>>();

/// The address range of the allocation whose channel is at the address `channel`.
///
/// # Safety
/// At `channel` there is a live channel made by [`new`].
pub(crate) unsafe fn allocation(channel: usize) -> Range<usize> {
    // SAFETY: the caller's promise; `new` checks that the size lies directly before the channel.
    let bytes = unsafe { *((channel - size_of::<u32>()) as *const u32) };
    channel - HEAD..channel + bytes as usize
}

/// Whether one of the channel's sides is gone. If so, all who wait there are about to be woken.
///
/// # Safety
/// At `channel` there is a live channel made by [`new`].
pub(crate) unsafe fn is_disconnected(channel: usize) -> bool {
    // SAFETY: the caller's promise; the fields before the channel do not depend on its type.
    let head = unsafe { &*((channel - HEAD) as *const Counter<()>) };
    head.senders.load(Ordering::Relaxed) == 0 || head.receivers.load(Ordering::Relaxed) == 0
}

/// Allocates a channel, with one handle on each side.
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

/// A guard that counts a side as gone when it is dropped, even if the drop of a buffered message panics.
struct Leave<C>(*mut Counter<C>);

impl<C> Drop for Leave<C> {
    fn drop(&mut self) {
        // AcqRel: the side that frees the channel sees everything that the other side did.
        // SAFETY: each side is counted as gone once, so the channel stays alive until the second one gets
        // here.
        unsafe {
            if (*self.0).gone.fetch_add(1, Ordering::AcqRel) == 1 {
                drop(Box::from_raw(self.0));
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
            /// Makes one more handle of this side.
            pub(crate) fn acquire(&self) -> $name<C> {
                // SAFETY: we are a handle, so the channel is alive.
                let before = unsafe { (*self.counter).$count.fetch_add(1, Ordering::Relaxed) };
                if before > MAX_HANDLES {
                    abort();
                }
                $name { counter: self.counter }
            }

            /// Gives a handle up. Calls `disconnect` if it was the last of this side.
            ///
            /// # Safety
            /// The handle is not used afterwards.
            pub(crate) unsafe fn release(&self, disconnect: impl FnOnce(&C)) {
                // AcqRel: everything done through the other handles of this side happens before the
                // disconnect.
                // SAFETY: we are a handle, so the channel is alive.
                if unsafe { (*self.counter).$count.fetch_sub(1, Ordering::AcqRel) } == 1 {
                    let _leave = Leave(self.counter);
                    disconnect(self);
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
