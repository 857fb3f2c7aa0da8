//! Who holds a lock.
//!
//! To look up the current goroutine costs a call and a thread-local read, which a lock of 3 ns would feel.
//! The stack tells it for nothing: every goroutine runs on a stack of its own, so the holder leaves a mark, the
//! number of the page that its stack pointer is in, in the line that the lock owns anyway. A report finds the
//! goroutine whose stack contains that page.
//!
//! A mark is never stale: it is set with the lock or after, and taken away with it or before. (Guards cannot be sent to
//! others.) For a moment, and while a lock is handed over to somebody who does not run yet, a held lock has none.

use std::arch::asm;
use std::sync::atomic::{AtomicU32, Ordering};

/// 4 KiB, whatever the machine's pages are. 31 bits of page numbers tell apart all stacks within 8 TiB.
const PAGE_BITS: u32 = 12;
const PAGES: u32 = (1 << 31) - 1;

/// Set in every mark, so that none is 0. Alone, it is the mark of somebody who does not run yet.
pub(super) const SOMEBODY: u32 = 1 << 31;

/// The mark of the caller.
#[inline(always)]
pub(super) fn here() -> u32 {
    let stack: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) stack, options(pure, nomem, nostack, preserves_flags)) };
    SOMEBODY | page_of(stack)
}

fn page_of(address: usize) -> u32 {
    (address >> PAGE_BITS) as u32 & PAGES
}

/// Who holds a lock whose own word has no room for a mark.
pub(super) struct Holder {
    mark: AtomicU32,
}

impl Holder {
    /// Nobody holds it.
    pub(super) const fn new() -> Holder {
        Holder { mark: AtomicU32::new(0) }
    }

    /// The caller has just taken the lock.
    #[inline(always)]
    pub(super) fn mark(&self) {
        self.mark.store(here(), Ordering::Relaxed);
    }

    /// The caller is about to release the lock. Release, of what comes next, or a fence in it publishes this.
    #[inline(always)]
    pub(super) fn clear(&self) {
        self.mark.store(0, Ordering::Relaxed);
    }

    /// Where the holder is, if that is known.
    pub(super) fn page(&self) -> Option<StackPage> {
        StackPage::of_mark(self.mark.load(Ordering::Relaxed))
    }
}

/// A page of somebody's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackPage(u32);

impl StackPage {
    /// `None` if the mark is nobody's, or of somebody who does not run yet.
    pub(super) fn of_mark(mark: u32) -> Option<StackPage> {
        (mark & PAGES != 0).then_some(StackPage(mark & PAGES))
    }

    /// Where it is, if that is within 4 TiB of the other address.
    pub(crate) fn near(self, other: usize) -> usize {
        // The difference of the pages, cut to 31 bits, with its sign.
        let pages = (self.0.wrapping_sub(page_of(other)) << 1) as i32 >> 1;
        (other >> PAGE_BITS).wrapping_add_signed(pages as isize) << PAGE_BITS
    }
}
