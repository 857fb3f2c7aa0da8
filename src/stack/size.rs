//! Slot sizes: which slot a goroutine gets.
//!
//! There are two kinds of slots. A *growable* slot has [`max_stack`] bytes of address space for its stack:
//! the stack grows as deep as the code goes, because the kernel provides a page when it is first touched. A
//! page table covers 2 MiB, so each growable slot needs page tables of its own (4 kB). That is nothing for
//! ten thousand goroutines and too much for a million. So the first slots are growable ([`GROWABLE_SLOTS`] of
//! them), and all others are *packed*: eight of the usual size share a page table.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::slot::HEADER;
use crate::sys::mem::{self, PAGE};
use crate::sys::thread;
use crate::tls;

/// The smallest stack (bytes); a smaller request gets this size.
pub(crate) const MIN_STACK: usize = 16 << 10;
/// The largest stack that can be requested (bytes).
pub(crate) const MAX_STACK: usize = 1 << 30;
/// How deep (bytes) the stacks of growable slots go, unless the program or the environment says otherwise.
const DEFAULT_MAX_STACK: usize = 64 << 20;
/// The binary logarithm of the slot size of the goroutine of `gort::run` and `main`: as with a process's
/// first thread, its stack and its thread-locals have 8 MiB together.
const MAIN_BITS: u32 = 23;

/// How many growable slots there are at most. They cost about 44 MB of page tables.
pub(crate) const GROWABLE_SLOTS: usize = 10_240;
/// Growable slots take at most one part in this many of the address space that the process may use.
const SHARE_OF_ADDRESS_SPACE: usize = 4;

/// The binary logarithms of the packed slot sizes for goroutines without a requested stack size: with private
/// TLS, and with shared TLS.
static USUAL: [AtomicU32; 2] = [AtomicU32::new(18), AtomicU32::new(16)];
/// If the program's thread-locals leave fewer than this many bytes of a usual slot for the stack, the usual
/// slot is made larger.
const USUAL_STACK: [usize; 2] = [192 << 10, 48 << 10];

/// The size of growable slots (bytes), without the guard; 0 if there are none.
static GROWABLE: AtomicUsize = AtomicUsize::new(0);
/// How many growable slots may still be made.
static GROWABLE_LEFT: AtomicUsize = AtomicUsize::new(0);

/// Called at start-up, when the size of the program's thread-locals is known. `stack_size` is what packed
/// slots promise, `max_stack` how deep growable ones go; `None` means the default.
pub(crate) fn init(stack_size: Option<usize>, max_stack: Option<usize>) {
    for (usual, stack) in USUAL.iter().zip(USUAL_STACK) {
        if let Ok(needed) = SizeClass::for_stack(stack) {
            usual.fetch_max(needed.0, Ordering::Relaxed);
        }
    }
    if let Some(Ok(class)) = stack_size.map(|bytes| SizeClass::for_stack(bytes.min(MAX_STACK))) {
        USUAL[0].store(class.0, Ordering::Relaxed);
    }
    let max_stack = max_stack.unwrap_or(DEFAULT_MAX_STACK).min(MAX_STACK);
    if max_stack > SizeClass::usual(true).usable() {
        // The odd page: see `span`.
        let span = (max_stack + overhead() + GROWABLE_GUARD).next_multiple_of(PAGE_TABLE) + PAGE;
        GROWABLE.store(span - GROWABLE_GUARD, Ordering::Relaxed);
        let space = mem::address_space() / SHARE_OF_ADDRESS_SPACE;
        let slots = GROWABLE_SLOTS.min(space / SizeClass::GROWABLE.span());
        GROWABLE_LEFT.store(slots, Ordering::Relaxed);
    }
    thread::leave_room_for_thread_locals(overhead());
}

/// How deep (bytes) a stack that is not requested otherwise can become.
pub(crate) fn max_stack() -> usize {
    SizeClass::GROWABLE.usable().max(SizeClass::usual(true).usable())
}

/// How many growable slots may still be made.
#[inline]
pub(super) fn growable_left() -> usize {
    GROWABLE_LEFT.load(Ordering::Relaxed)
}

/// Claims the right to make one more growable slot.
pub(super) fn claim_growable() -> bool {
    let one_less = |left: usize| left.checked_sub(1);
    GROWABLE_LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
}

/// The kernel refused address space for growable slots: no more of them are made.
pub(super) fn no_more_growable() {
    GROWABLE_LEFT.store(0, Ordering::Relaxed);
}

/// The slot that a new goroutine needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Need {
    /// The packed slot.
    pub(super) class: SizeClass,
    /// A growable slot will do, and is preferred.
    pub(super) grows: bool,
}

impl Need {
    /// For a goroutine without a requested stack size, after [`init`]. Shared-TLS goroutines get small packed
    /// slots: less address space needs less memory for page tables.
    #[inline]
    pub(crate) fn usual(private_tls: bool) -> Need {
        let grows = private_tls && GROWABLE.load(Ordering::Relaxed) != 0;
        Need { class: SizeClass::usual(private_tls), grows }
    }

    /// For the main goroutine.
    pub(crate) fn main() -> Need {
        let usual = Need::usual(true);
        Need { class: SizeClass(usual.class.0.max(MAIN_BITS)), ..usual }
    }

    /// For a goroutine that needs at least `wanted` bytes of stack, and at least the usual one.
    #[cfg(feature = "http")]
    pub(crate) fn at_least(wanted: usize) -> io::Result<Need> {
        let usual = Need::usual(true);
        let class = SizeClass(SizeClass::for_stack(wanted)?.0.max(usual.class.0));
        Ok(Need { class, grows: usual.grows && wanted <= SizeClass::GROWABLE.usable() })
    }

    /// For a goroutine that needs at least `wanted` bytes of stack. If that is less than usual, it gets a
    /// packed slot of that size: the program has many such goroutines and wants them small.
    pub(crate) fn for_stack(wanted: usize) -> io::Result<Need> {
        let class = SizeClass::for_stack(wanted)?;
        let usual = Need::usual(true);
        let grows = usual.grows && class.0 >= usual.class.0 && wanted <= SizeClass::GROWABLE.usable();
        Ok(Need { class, grows })
    }
}

/// One more than the largest [`SizeClass::index`].
pub(crate) const CLASSES: usize = 32;

/// A slot size: a packed slot of `1 << bits` bytes, or a growable one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SizeClass(u32);

impl SizeClass {
    /// Growable slots. (No packed slot has two bytes.)
    pub(crate) const GROWABLE: SizeClass = SizeClass(1);

    #[inline]
    fn usual(private_tls: bool) -> SizeClass {
        SizeClass(USUAL[usize::from(!private_tls)].load(Ordering::Relaxed))
    }

    /// The class whose packed slots have at least `wanted` bytes of usable stack.
    fn for_stack(wanted: usize) -> io::Result<SizeClass> {
        if wanted > MAX_STACK {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a goroutine's stack can have at most {MAX_STACK} bytes, but {wanted} were asked for"
                ),
            ));
        }
        let needed = wanted.max(MIN_STACK) + overhead();
        Ok(SizeClass(needed.next_power_of_two().trailing_zeros()))
    }

    pub(super) fn from_bits(bits: u32) -> SizeClass {
        SizeClass(bits)
    }

    pub(super) fn bits(self) -> u32 {
        self.0
    }

    /// Whether these slots are growable.
    #[inline]
    pub(crate) fn is_growable(self) -> bool {
        self == SizeClass::GROWABLE
    }

    /// The bytes of a slot, without its guard.
    pub(crate) fn slot_size(self) -> usize {
        if self.is_growable() { GROWABLE.load(Ordering::Relaxed) } else { 1 << self.0 }
    }

    /// Which list of a P's cache keeps these slots: growable ones, or one of the two usual packed sizes.
    pub(super) fn cache_index(self) -> Option<usize> {
        if self.is_growable() {
            return Some(0);
        }
        USUAL.iter().position(|usual| usual.load(Ordering::Relaxed) == self.0).map(|usual| usual + 1)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// The bytes below a slot's stack that fault on access. A function that reserves more than this without
    /// touching it (C code without stack probes) may pass over the guard.
    pub(super) fn guard(self) -> usize {
        if self.is_growable() { GROWABLE_GUARD } else { PACKED_GUARD }
    }

    /// The bytes of a slot with its guard, which is also the distance from one slot to the next. It is an odd
    /// number of pages, on purpose: at a distance of 256 KiB the top pages of all goroutines would share one
    /// or two sets of the CPU's TLB, and with a thousand goroutines every switch would miss it.
    pub(super) fn span(self) -> usize {
        self.guard() + self.slot_size()
    }

    /// Bytes of a slot that the goroutine's code can use.
    pub(crate) fn usable(self) -> usize {
        self.slot_size().saturating_sub(overhead())
    }
}

/// The address space that one page table covers (bytes).
pub(super) const PAGE_TABLE: usize = PAGE / size_of::<usize>() * PAGE;

/// The guard below a packed slot (bytes): together with a slot of 256 KiB an odd number of pages, and larger
/// than the usual buffers in frames of C. An even larger one would spread a crowd over more page tables.
const PACKED_GUARD: usize = 5 * PAGE;

/// The guard below a growable slot (bytes). It borders on the top of the slot below, so both use the same
/// page table in most cases.
const GROWABLE_GUARD: usize = 64 << 10;

/// Bytes of a slot that are not stack: the header and the TLS block.
fn overhead() -> usize {
    let (below, above) = tls::block::layout().map_or((0, 0), |l| (l.below, l.above));
    HEADER + below + above
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_at_least_as_large_as_asked_for() {
        for wanted in [0, 1, MIN_STACK, MIN_STACK + 1, 100_000, 1 << 20, DEFAULT_MAX_STACK, MAX_STACK] {
            let class = SizeClass::for_stack(wanted).unwrap();
            assert!(class.usable() >= wanted.max(MIN_STACK), "{wanted}");
            assert!(class.index() < CLASSES);
        }
    }

    #[test]
    fn too_large_a_stack_is_refused_with_both_numbers() {
        let error = SizeClass::for_stack(usize::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("1073741824"), "{error}");
    }

    #[test]
    fn slots_lie_an_odd_number_of_pages_apart() {
        crate::run(|| ());
        for class in [SizeClass::GROWABLE, SizeClass::usual(true), SizeClass::usual(false)] {
            assert_eq!((class.span() % PAGE, class.span() / PAGE % 2), (0, 1), "{class:?}");
        }
    }
}
