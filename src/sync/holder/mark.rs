//! Records which goroutine or thread holds a lock, at almost no cost.
//!
//! Looking up the current goroutine costs a call and a thread-local read, which is much for a lock that takes
//! 3 ns. The stack pointer identifies the goroutine for free, because every goroutine runs on a stack of its
//! own. So the holder leaves a mark in the cache line of the lock: the number of the page that its stack
//! pointer is in. A report then looks for the goroutine whose stack contains that page.
//!
//! A mark is never stale: the holder sets it when it takes the lock or later, and clears it when it releases
//! the lock or earlier. (Guards cannot be sent to other goroutines.) A held lock may have no mark for a
//! moment, and while it is handed to a waiter that does not run yet.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::arch;

/// log2 of the page size of marks: 16 KiB, whatever the machine's page size is. Guards are larger, so no two
/// stacks share such a page; but it may begin in the guard below its stack.
const PAGE_BITS: u32 = 14;
/// The bits of a mark that hold the page number. 31 bits of 16 KiB pages distinguish all stacks within 32
/// TiB.
const PAGES: u32 = (1 << 31) - 1;

/// Set in every mark, so that no mark is 0. Alone, it marks a holder that does not run yet.
pub(in crate::sync) const SOMEBODY: u32 = 1 << 31;

/// The mark of the caller.
#[inline(always)]
pub(in crate::sync) fn here() -> u32 {
    SOMEBODY | page_of(arch::stack_pointer())
}

fn page_of(address: usize) -> u32 {
    (address >> PAGE_BITS) as u32 & PAGES
}

/// The holder's mark, for a lock whose own word has no room for it.
pub(in crate::sync) struct Holder {
    mark: AtomicU32,
}

impl Holder {
    /// No mark: nobody holds the lock.
    pub(in crate::sync) const fn new() -> Holder {
        Holder { mark: AtomicU32::new(0) }
    }

    /// Sets the caller's mark. The caller has just taken the lock.
    #[inline(always)]
    pub(in crate::sync) fn mark(&self) {
        self.mark.store(here(), Ordering::Relaxed);
    }

    /// Clears the mark. The caller is about to release the lock; the Release of that step, or a fence in it,
    /// publishes this store.
    #[inline(always)]
    pub(in crate::sync) fn clear(&self) {
        self.mark.store(0, Ordering::Relaxed);
    }

    /// A page of the holder's stack, if the holder is known.
    pub(in crate::sync) fn page(&self) -> Option<StackPage> {
        StackPage::of_mark(self.mark.load(Ordering::Relaxed))
    }
}

/// The number of a page in some goroutine's or thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackPage(u32);

impl StackPage {
    /// `None` if nobody holds the lock, or if the holder does not run yet.
    pub(in crate::sync) fn of_mark(mark: u32) -> Option<StackPage> {
        (mark & PAGES != 0).then_some(StackPage(mark & PAGES))
    }

    /// The address of the page, provided that it is within 16 TiB of `other`.
    pub(crate) fn near(self, other: usize) -> usize {
        // The difference of the page numbers, as a signed number of 31 bits.
        let pages = (self.0.wrapping_sub(page_of(other)) << 1) as i32 >> 1;
        (other >> PAGE_BITS).wrapping_add_signed(pages as isize) << PAGE_BITS
    }
}
