//! Memory for one message whose type is not known at compile time: small messages are stored inline, large
//! ones on the heap.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;

/// The largest message that is stored inline, in bytes.
const INLINE: usize = 64;

#[repr(align(16))]
struct Inline([MaybeUninit<u8>; INLINE]);

/// Memory of a given layout. It does not know whether it holds a message, and never drops one.
pub(crate) struct Payload {
    inline: Inline,
    /// Null if the layout fits inline.
    heap: *mut u8,
    layout: Layout,
}

impl Payload {
    pub(crate) fn new(layout: Layout) -> Payload {
        let inline = Inline([MaybeUninit::uninit(); INLINE]);
        let mut payload = Payload { inline, heap: std::ptr::null_mut(), layout };
        if !payload.is_inline() {
            // SAFETY: the size is not zero, because `is_inline` is true for every layout of size zero.
            payload.heap = unsafe { alloc(layout) };
            if payload.heap.is_null() {
                handle_alloc_error(layout);
            }
        }
        payload
    }

    fn is_inline(&self) -> bool {
        self.layout.size() == 0 || self.layout.size() <= INLINE && self.layout.align() <= align_of::<Inline>()
    }

    /// The address of the memory. It changes when the payload moves.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        if self.layout.size() == 0 {
            // A message of size zero may need more alignment than `Inline` has.
            std::ptr::without_provenance_mut(self.layout.align())
        } else if self.is_inline() {
            self.inline.0.as_mut_ptr().cast()
        } else {
            self.heap
        }
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        if !self.is_inline() {
            // SAFETY: allocated in `new` with this layout.
            unsafe { dealloc(self.heap, self.layout) };
        }
    }
}

/// A layout that fits both `a` and `b`.
pub(crate) fn union(a: Layout, b: Layout) -> Layout {
    let align = a.align().max(b.align());
    Layout::from_size_align(a.size().max(b.size()), align).expect("the message types exist").pad_to_align()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_gets_aligned_memory_of_its_size() {
        #[repr(align(64))]
        struct Aligned;
        let layouts = [
            Layout::new::<()>(),
            Layout::new::<Aligned>(),
            Layout::new::<u64>(),
            Layout::new::<[u64; 8]>(),
            Layout::new::<[u64; 9]>(),
            union(Layout::new::<Aligned>(), Layout::new::<u8>()),
            union(Layout::new::<[u8; 100]>(), Layout::new::<u128>()),
        ];
        for layout in layouts {
            let mut payload = Payload::new(layout);
            let memory = payload.as_mut_ptr();
            assert_eq!(memory as usize % layout.align(), 0);
            // SAFETY: the payload has that many bytes.
            unsafe { memory.write_bytes(0xa5, layout.size()) };
            let mut moved = payload;
            // SAFETY: all of these bytes were written above, and the move copied or kept them.
            let bytes = unsafe { std::slice::from_raw_parts(moved.as_mut_ptr(), layout.size()) };
            assert!(bytes.iter().all(|&byte| byte == 0xa5));
        }
    }
}
