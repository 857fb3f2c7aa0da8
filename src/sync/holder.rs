//! Who holds a lock, for reports.
//!
//! To look up the current goroutine costs a call and a thread-local read, which a lock of 10 ns would feel.
//! The stack tells it for nothing: every goroutine runs on a stack of its own, so the holder leaves the
//! number of the page its stack pointer is in, one plain store into the line that the lock owns anyway.
//! A report finds the goroutine whose stack contains that page.
//!
//! It is a hint: it may be stale for the few instructions between taking the lock and the store, and it names
//! who took the lock, not whom a guard was sent to. In a deadlock everybody is parked, and it is exact.

use std::sync::atomic::{AtomicU32, Ordering};

/// 4 KiB, whatever the machine's pages are. 32 bits of page numbers tell apart all stacks within 16 TiB.
const PAGE_BITS: u32 = 12;

/// The page of the stack from which a lock was last taken.
pub(super) struct Holder {
    page: AtomicU32,
}

impl Holder {
    /// Nobody held it yet.
    pub(super) const fn new() -> Holder {
        Holder { page: AtomicU32::new(0) }
    }

    /// The caller has just taken the lock.
    #[inline(always)]
    pub(super) fn mark(&self) {
        let here = 0u8;
        self.page.store(page_of(&raw const here as usize), Ordering::Relaxed);
    }

    /// Where the last holder was.
    pub(super) fn page(&self) -> StackPage {
        StackPage(self.page.load(Ordering::Relaxed))
    }
}

pub(super) fn page_of(address: usize) -> u32 {
    (address >> PAGE_BITS) as u32
}

/// A page of somebody's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackPage(pub(super) u32);

impl StackPage {
    /// Whether it lies in the stack of these addresses, `low` included and `high` not.
    pub(crate) fn is_within(self, low: usize, high: usize) -> bool {
        low < high && {
            let (low, last) = (page_of(low), page_of(high - 1));
            // Wrapping: page numbers are cut to 32 bits.
            self.0.wrapping_sub(low) <= last.wrapping_sub(low)
        }
    }
}
