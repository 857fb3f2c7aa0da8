//! Cells that others may look at: one owner writes, as with a `Cell`, and reports read whatever is there. They synchronise
//! nothing, and cost what a `Cell` costs.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

macro_rules! peek {
    ($(#[$doc:meta])* $name:ident, $value:ty, $atomic:ty) => {
        $(#[$doc])*
        pub(crate) struct $name($atomic);

        impl $name {
            pub(crate) const fn new(value: $value) -> $name {
                $name(<$atomic>::new(value))
            }

            #[inline(always)]
            pub(crate) fn get(&self) -> $value {
                self.0.load(Ordering::Relaxed)
            }

            #[inline(always)]
            pub(crate) fn set(&self, value: $value) {
                self.0.store(value, Ordering::Relaxed);
            }

        }
    };
}

peek!(
    /// A flag.
    PeekBool, bool, AtomicBool
);
peek!(
    /// A small number.
    PeekU8, u8, AtomicU8
);
peek!(
    /// A count.
    PeekU32, u32, AtomicU32
);
peek!(
    /// A number.
    PeekU64, u64, AtomicU64
);
peek!(
    /// An address.
    PeekUsize, usize, AtomicUsize
);

impl PeekUsize {
    /// For the owner, which may write there.
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut usize {
        self.0.as_ptr()
    }
}

impl PeekBool {
    /// By the owner: not atomic.
    #[inline(always)]
    pub(crate) fn replace(&self, value: bool) -> bool {
        let before = self.get();
        self.set(value);
        before
    }
}

/// A reference to something that lives for ever.
pub(crate) struct PeekRef<T: 'static>(AtomicPtr<T>);

impl<T> PeekRef<T> {
    pub(crate) const fn new() -> PeekRef<T> {
        PeekRef(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: only references are stored. What they point to was complete before it was first published (Acquire costs
        // nothing here; it pairs with `set`).
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: Option<&'static T>) {
        self.0
            .store(value.map_or(ptr::null_mut(), |value| ptr::from_ref(value).cast_mut()), Ordering::Release);
    }

    /// By the owner: not atomic.
    #[inline(always)]
    pub(crate) fn replace(&self, value: Option<&'static T>) -> Option<&'static T> {
        let before = self.get();
        self.set(value);
        before
    }
}
