//! A slot of address space for one goroutine: its addresses, and giving its unused pages back to the kernel.
//!
//! A `Slot` is the end of the header that lies above a stack (see the picture in `mod.rs`). It is written
//! once, when the slot is made, and stays readable forever: slots are never unmapped.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::size::SizeClass;
use crate::sys::mem::{self, PAGE};

/// Size of the header above a stack (bytes).
pub(crate) const HEADER: usize = 128;

/// The bits of `Slot::place` that hold the binary logarithm of the size.
const SIZE_BITS: usize = 63;

/// The last words of a header.
#[repr(C)]
pub(crate) struct Slot {
    /// The thread pointer of the slot's TLS block.
    pub(crate) block: usize,
    /// The address where the slot begins, a page boundary; the lowest bits hold the binary logarithm of its
    /// size. 0 until the slot is made.
    place: AtomicUsize,
}

impl Slot {
    /// The offset of `place`, for debuggers.
    pub(crate) const PLACE: usize = offset_of!(Slot, place);

    pub(super) fn new(start: usize, class: SizeClass, block: usize) -> Slot {
        Slot { block, place: AtomicUsize::new(start | class.bits() as usize) }
    }

    /// The lowest address of the slot, where its guard begins; 0 while the slot is being made.
    pub(crate) fn start(&self) -> usize {
        self.place.load(Ordering::Relaxed) & !SIZE_BITS
    }

    /// The slot's size class.
    #[inline]
    pub(crate) fn class(&self) -> SizeClass {
        SizeClass::from_bits((self.place.load(Ordering::Relaxed) & SIZE_BITS) as u32)
    }

    /// The address of the header, which is also the base of the stack.
    #[inline]
    pub(crate) fn header(&self) -> usize {
        std::ptr::from_ref(self) as usize + size_of::<Slot>() - HEADER
    }

    /// The addresses of the stack, without the guard.
    pub(crate) fn stack(&self) -> Range<usize> {
        self.guard().end..self.header()
    }

    /// All addresses of the slot but its guard: stack, header and TLS block.
    pub(crate) fn addresses(&self) -> Range<usize> {
        self.guard().end..self.start() + self.class().span()
    }

    /// The addresses of the guard.
    pub(crate) fn guard(&self) -> Range<usize> {
        self.start()..self.start() + self.class().guard()
    }

    /// Gives back the pages of the stack that lie entirely below `address`: this is how a stack shrinks.
    ///
    /// # Safety
    /// The caller owns the slot, and nothing below `address` is in use.
    pub(crate) unsafe fn discard_below(&self, address: usize) {
        let start = self.stack().start;
        let end = address & !(PAGE - 1);
        if end > start {
            // SAFETY: the caller's promise; the guard is left out.
            unsafe { mem::discard(start, end - start) };
            TRIMMED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

static TRIMMED: AtomicU64 = AtomicU64::new(0);

/// How often the unused part of a stack has been given back so far.
pub(crate) fn trimmed() -> u64 {
    TRIMMED.load(Ordering::Relaxed)
}
