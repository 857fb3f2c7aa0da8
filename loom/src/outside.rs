//! Stand-ins for the layers below the scheduler that the included files use, and that do not matter to a
//! model.

/// Prefetching does nothing.
pub(crate) mod arch {
    pub(crate) fn prefetch(_address: usize) {}

    pub(crate) fn stack_pointer() -> usize {
        0x1000
    }
}

/// Gs have no stacks.
pub(crate) mod stack {
    pub(crate) mod slot {
        pub(crate) struct Slot;

        impl Slot {
            pub(crate) const PLACE: usize = 0;
        }
    }

    pub(crate) mod cache {
        pub(crate) struct Local;

        impl Local {
            pub(crate) const fn new() -> Local {
                Local
            }
        }
    }
}

/// There are no timers.
pub(crate) mod timer {
    pub(crate) const NEVER: u64 = u64::MAX;

    pub(crate) struct Timers;

    impl Timers {
        pub(crate) const fn new() -> Timers {
            Timers
        }
    }
}

/// Memory comes from the allocator.
pub(crate) mod sys {
    pub(crate) mod clock {
        pub(crate) fn nanotime() -> u64 {
            0
        }
    }

    pub(crate) mod sanitizer {
        pub(crate) struct Fiber;

        impl Fiber {
            pub(crate) fn new() -> Fiber {
                Fiber
            }
        }
    }

    pub(crate) mod signal {
        #[derive(Clone, Copy)]
        pub(crate) struct ThreadSignals;
    }

    pub(crate) mod mem {
        use std::alloc::{Layout, alloc_zeroed, dealloc};

        pub(crate) const PAGE: usize = 64;

        fn layout(size: usize) -> Layout {
            Layout::from_size_align(size, PAGE).expect("a small block")
        }

        pub(crate) fn reserve(size: usize) -> std::io::Result<usize> {
            // SAFETY: the size is not 0.
            Ok(unsafe { alloc_zeroed(layout(size)) } as usize)
        }

        /// `count` values that no execution frees.
        ///
        /// # Safety
        /// None is needed here; gort's own function has a condition.
        pub(crate) unsafe fn zeroed_forever<T: Default>(count: usize) -> std::io::Result<&'static [T]> {
            Ok(Box::leak((0..count).map(|_| T::default()).collect()))
        }

        /// # Safety
        /// It came from [`reserve`], with this size, and no thread uses it any more.
        pub(crate) unsafe fn release(start: usize, size: usize) {
            // SAFETY: the caller's promise.
            unsafe { dealloc(start as *mut u8, layout(size)) };
        }
    }
}
