//! A reference-counted pointer for the packet that a goroutine and its handle share: like `Arc`, without weak
//! references. The value is in one of the runtime's own blocks or, if it is too large or over-aligned for
//! one, in a box.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sched::run::small_blocks;

struct Inner<T> {
    references: AtomicUsize,
    value: T,
}

pub(super) struct Shared<T>(NonNull<Inner<T>>);

// SAFETY: as for `Arc`: threads share the value, and the last one drops it.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as for `Arc`: threads share the value, and the last one drops it.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    const IN_BLOCK: bool =
        size_of::<Inner<T>>() <= small_blocks::SIZE && align_of::<Inner<T>>() <= small_blocks::ALIGN;

    /// Two references to a new value.
    pub(super) fn new_pair(value: T) -> (Shared<T>, Shared<T>) {
        let inner = Inner { references: AtomicUsize::new(2), value };
        let place = if Self::IN_BLOCK
            && let Some(block) = small_blocks::take()
        {
            let place = block.cast::<Inner<T>>();
            // SAFETY: the block is ours, large enough and aligned.
            unsafe { place.write(inner) };
            NonNull::new(place).expect("a block is not null")
        } else if Self::IN_BLOCK {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<Inner<T>>())
        } else {
            NonNull::from(Box::leak(Box::new(inner)))
        };
        (Shared(place), Shared(place))
    }

    /// Whether this is the only reference at this moment.
    pub(super) fn is_last(&self) -> bool {
        self.inner().references.load(Ordering::Acquire) == 1
    }

    /// Drops this reference. Returns true if it was the last one, so that the value was dropped.
    pub(super) fn release(self) -> bool {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `ManuallyDrop` prevents a second release of this reference.
        unsafe { this.release_inner() }
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: the value is valid as long as there is a reference.
        unsafe { self.0.as_ref() }
    }

    /// # Safety
    /// Called once for each reference, which is not used afterwards.
    unsafe fn release_inner(&self) -> bool {
        // AcqRel pairs with itself: all uses of the value happen before its drop. (A fence for the last one
        // alone would do, too, but ThreadSanitizer does not see fences.)
        if self.inner().references.fetch_sub(1, Ordering::AcqRel) != 1 {
            return false;
        }
        // SAFETY: this was the last reference, so nobody else can reach the value.
        unsafe {
            if Self::IN_BLOCK {
                self.0.drop_in_place();
                small_blocks::give(self.0.as_ptr().cast());
            } else {
                drop(Box::from_raw(self.0.as_ptr()));
            }
        }
        true
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: a reference is dropped once, and not used afterwards.
        unsafe { self.release_inner() };
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

#[cfg(test)]
mod tests {
    use super::Shared;
    use std::sync::Arc;

    #[test]
    fn the_value_is_dropped_with_the_last_reference() {
        let witness = Arc::new(());
        let (one, other) = Shared::new_pair(witness.clone());
        assert!(!one.release());
        assert_eq!(Arc::strong_count(&witness), 2);
        assert!(other.is_last());
        assert!(other.release());
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn large_and_over_aligned_values_work() {
        #[repr(align(256))]
        struct Large([u8; 1000]);
        let (one, other) = Shared::new_pair(Large([7; 1000]));
        drop(one);
        assert_eq!(std::ptr::from_ref(&*other) as usize % 256, 0);
        let large: &Large = &other;
        assert!(large.0.iter().all(|&b| b == 7));
    }
}
