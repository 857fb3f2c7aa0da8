//! Recognises a goroutine that left its thread-locals as it found them, as most do. Then there is nothing to
//! destroy and nothing to refresh, and the runtime saves the calls into libc that would find that out.
//!
//! What code can leave behind, and how it shows:
//! - Values of `thread_local!`s, registered destructors, errno, the locale, the loader's last error: they are
//!   in static TLS, which is compared with that of a new block. The comparison skips the words that malloc
//!   uses (they stay with the block) and those that differ from block to block.
//! - Thread-locals of a library loaded later: they are not in static TLS, but the loader's list of modules
//!   has grown.
//! - Values of pthread keys: they are not in static TLS either. But then the program has created a key since
//!   start-up, or the block says that it uses one of the keys that existed at start-up.
//!
//! The loader's list and the creation of keys are checked for the whole process, in memory that is always in
//! the cache. Once either has changed, every goroutine takes the slow path.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::layout::Layout;
use super::{block, loaded};

/// The largest static TLS, in words, that is compared. With more, every goroutine takes the slow path.
const MAX_WORDS: usize = 128;

pub(super) struct Pristine {
    /// The `count` words of a new block's static TLS, which begins at `tp - 8 * count`; `mask` has the bits
    /// to compare.
    expected: [usize; MAX_WORDS],
    mask: [usize; MAX_WORDS],
    count: usize,
    /// The last module's `l_next`: null as long as no module was loaded after start-up.
    next_module: *const AtomicPtr<u8>,
    /// The sequence number of the pthread key that `pthread_key_create` will take next, and its value at
    /// start-up.
    next_key: *const AtomicUsize,
    next_key_sequence: usize,
    /// The offset of the byte that says whether the block uses pthread keys. `None` if no key existed at
    /// start-up: then the byte need not be read.
    keys_used: Option<usize>,
}

// SAFETY: the value is immutable, and its two pointers refer to words of the loader and libc that are read
// atomically and never freed.
unsafe impl Send for Pristine {}
// SAFETY: as for `Send`.
unsafe impl Sync for Pristine {}

static PRISTINE: OnceLock<Option<Pristine>> = OnceLock::new();

/// Learns what a new block looks like. No code has run on the block at `tp` yet; `current` is the offset of
/// the thread-local `CURRENT`.
///
/// # Safety
/// Nobody runs on the block.
pub(super) unsafe fn learn(layout: &Layout, tp: usize, current: isize) {
    // SAFETY: passed on.
    PRISTINE.get_or_init(|| unsafe { look(layout, tp, current) });
}

unsafe fn look(layout: &Layout, tp: usize, current: isize) -> Option<Pristine> {
    let count = layout.used / 8;
    if count > MAX_WORDS || !layout.all_static {
        return None;
    }
    let (keys, next_key) = layout.next_key()?;
    let mut pristine = Pristine {
        expected: [0; MAX_WORDS],
        mask: [0; MAX_WORDS],
        count,
        next_module: loaded::end_of_module_list()?,
        next_key,
        // SAFETY: libc's key table is never freed.
        next_key_sequence: unsafe { (*next_key).load(Ordering::Relaxed) },
        keys_used: if keys == 0 { None } else { Some(layout.key_data.used?) },
    };
    let words = |tp: usize| (tp - layout.used) as *const usize;
    for i in 0..count {
        // SAFETY: within the block.
        pristine.expected[i] = unsafe { *words(tp).add(i) };
        pristine.mask[i] = usize::MAX;
    }
    // The words that change while malloc runs are malloc's: they are not compared.
    // SAFETY: nobody else runs on the block.
    unsafe { block::on_block(tp, use_malloc) };
    for i in 0..count {
        // SAFETY: within the block.
        if unsafe { *words(tp).add(i) } != pristine.expected[i] {
            pristine.mask[i] = 0;
        }
    }
    for offset in [current, layout.resolver_pointer] {
        let index = (offset + layout.used as isize) / 8;
        *pristine.mask.get_mut(usize::try_from(index).ok()?)? = 0;
    }
    Some(pristine)
}

fn use_malloc() {
    for size in [24, 1000, 100_000] {
        // SAFETY: allocates and frees.
        unsafe { libc::free(std::hint::black_box(libc::malloc(size))) };
    }
}

/// Whether the goroutine on the block at `tp` left nothing behind.
///
/// # Safety
/// `tp` is a complete block, and nobody else runs on it.
#[inline]
pub(super) unsafe fn is_untouched(tp: usize) -> bool {
    let Some(Some(pristine)) = PRISTINE.get() else { return false };
    // SAFETY: both words are never freed (see `look`), and the byte lies in the block.
    let unchanged = unsafe {
        (*pristine.next_module).load(Ordering::Relaxed).is_null()
            && (*pristine.next_key).load(Ordering::Relaxed) == pristine.next_key_sequence
            && pristine.keys_used.is_none_or(|used| *((tp + used) as *const u8) == 0)
    };
    if !unchanged {
        return false;
    }
    let start = (tp - 8 * pristine.count) as *const usize;
    let mut difference = 0;
    for i in 0..pristine.count {
        // SAFETY: within the block.
        difference |= (unsafe { *start.add(i) } ^ pristine.expected[i]) & pristine.mask[i];
    }
    difference == 0
}
