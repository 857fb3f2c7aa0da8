//! Cells that only their owner writes, and that any thread may read, for reports. They synchronise nothing
//! (except that [`OwnerRef`] publishes what it points to), and cost what a `Cell` costs.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

macro_rules! owner_cell {
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

owner_cell!(
    /// A flag.
    OwnerBool, bool, AtomicBool
);
owner_cell!(
    /// A small number.
    OwnerU8, u8, AtomicU8
);
owner_cell!(
    /// A count.
    OwnerU32, u32, AtomicU32
);
owner_cell!(
    /// A number.
    OwnerU64, u64, AtomicU64
);
owner_cell!(
    /// An address.
    OwnerUsize, usize, AtomicUsize
);

impl OwnerUsize {
    /// A pointer through which the owner may write.
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut usize {
        self.0.as_ptr()
    }
}

impl OwnerBool {
    /// By the owner. Not atomic.
    #[inline(always)]
    pub(crate) fn replace(&self, value: bool) -> bool {
        let before = self.get();
        self.set(value);
        before
    }
}

/// A reference to an object that lives forever.
pub(crate) struct OwnerRef<T: 'static>(AtomicPtr<T>);

impl<T> std::fmt::Debug for OwnerRef<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> OwnerRef<T> {
    pub(crate) const fn new() -> OwnerRef<T> {
        OwnerRef(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: only references are stored. What they point to was complete before it was first published
        // (Acquire costs nothing here; it pairs with `set`).
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: Option<&'static T>) {
        self.0
            .store(value.map_or(ptr::null_mut(), |value| ptr::from_ref(value).cast_mut()), Ordering::Release);
    }

    /// By the owner. Not atomic.
    #[inline(always)]
    pub(crate) fn replace(&self, value: Option<&'static T>) -> Option<&'static T> {
        let before = self.get();
        self.set(value);
        before
    }
}
