//! Slot sizes, which are powers of two: the class for a wanted stack size, and the usual ones.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::slot::HEADER;
use crate::sys::mem::PAGE;
use crate::sys::thread;
use crate::tls;

/// The smallest stack (bytes); a smaller request gets this size.
pub(crate) const MIN_STACK: usize = 16 << 10;
/// The largest stack that can be requested (bytes).
pub(crate) const MAX_STACK: usize = 64 << 20;
/// The binary logarithms of the slot sizes for goroutines without a requested stack size: with private TLS,
/// and with shared TLS.
static USUAL: [AtomicU32; 2] = [AtomicU32::new(18), AtomicU32::new(16)];
/// If the program's thread-locals leave fewer than this many bytes of a usual slot for the stack, the usual
/// slot is made larger.
const USUAL_STACK: [usize; 2] = [192 << 10, 48 << 10];

/// Called at start-up, when the size of the program's thread-locals is known.
pub(crate) fn init() {
    for (usual, stack) in USUAL.iter().zip(USUAL_STACK) {
        if let Ok(needed) = SizeClass::for_stack(stack) {
            usual.fetch_max(needed.0, Ordering::Relaxed);
        }
    }
    thread::leave_room_for_thread_locals(overhead());
}

/// One more than the largest [`SizeClass::index`].
pub(crate) const CLASSES: usize = 28;

/// A slot size: `1 << bits` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SizeClass(u32);

impl SizeClass {
    /// The class for a goroutine without a requested stack size, after [`init`]. Shared-TLS goroutines get
    /// smaller slots: less address space needs less memory for page tables.
    #[inline]
    pub(crate) fn usual(private_tls: bool) -> SizeClass {
        SizeClass(USUAL[usize::from(!private_tls)].load(Ordering::Relaxed))
    }

    /// The class whose slots have at least `wanted` bytes of usable stack.
    pub(crate) fn for_stack(wanted: usize) -> io::Result<SizeClass> {
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

    pub(crate) fn slot_size(self) -> usize {
        1 << self.0
    }

    /// Which of the two usual sizes this is, if it is one. A P keeps slots of these two.
    pub(super) fn usual_index(self) -> Option<usize> {
        USUAL.iter().position(|usual| usual.load(Ordering::Relaxed) == self.0)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// The distance from one slot to the next: the slot and its guard page. It is not a power of two, on
    /// purpose: at a distance of 256 KiB the top pages of all goroutines would share one or two sets of the
    /// CPU's TLB, and with a thousand goroutines every switch would miss it.
    pub(super) fn stride(self) -> usize {
        PAGE + self.slot_size()
    }

    /// Bytes of a slot that the goroutine's code can use.
    pub(crate) fn usable(self) -> usize {
        self.slot_size() - overhead()
    }
}

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
        for wanted in [0, 1, MIN_STACK, MIN_STACK + 1, 100_000, 1 << 20, MAX_STACK] {
            let class = SizeClass::for_stack(wanted).unwrap();
            assert!(class.usable() >= wanted.max(MIN_STACK), "{wanted}");
            assert!(class.index() < CLASSES);
        }
    }

    #[test]
    fn too_large_a_stack_is_refused_with_both_numbers() {
        let error = SizeClass::for_stack(usize::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("67108864"), "{error}");
    }
}
