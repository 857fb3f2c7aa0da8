//! A reference-counted value in one of the runtime's own blocks, or, if it is too large, in a box. What `Arc` is, without
//! weak references, for the packet that a goroutine and its handle share.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::sched::blocks;

struct Inner<T> {
    references: AtomicUsize,
    value: T,
}

pub(super) struct Shared<T>(NonNull<Inner<T>>);

// SAFETY: as Arc: the value is shared and dropped by whoever is last.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    const IN_BLOCK: bool = size_of::<Inner<T>>() <= blocks::SIZE && align_of::<Inner<T>>() <= blocks::ALIGN;

    /// Two references to a new value.
    pub(super) fn new_pair(value: T) -> (Shared<T>, Shared<T>) {
        let inner = Inner { references: AtomicUsize::new(2), value };
        let place = if Self::IN_BLOCK
            && let Some(block) = blocks::take()
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

    /// Drops this reference. True: it was the last, and the value was dropped.
    pub(super) fn release(self) -> bool {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the reference is given up here, once.
        unsafe { this.release_inner() }
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: valid as long as there is a reference.
        unsafe { self.0.as_ref() }
    }

    unsafe fn release_inner(&self) -> bool {
        // Release: what was done with the value comes before its drop; the fence is the other half.
        if self.inner().references.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        fence(Ordering::Acquire);
        // SAFETY: the last reference: nobody else can reach the value.
        unsafe {
            if Self::IN_BLOCK {
                self.0.drop_in_place();
                blocks::give(self.0.as_ptr().cast());
            } else {
                drop(Box::from_raw(self.0.as_ptr()));
            }
        }
        true
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: a reference is dropped once.
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
