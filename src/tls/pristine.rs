//! Recognising that a goroutine left its thread-locals as it found them: most do. Then there is nothing to destroy and
//! nothing to refresh, and the calls into libc that would find that out are saved.
//!
//! What code can leave behind, and how it shows:
//! - values of `thread_local!`s, registered destructors, errno, the locale, the loader's last error: in static TLS. It is
//!   compared with that of a new block, but for the words that malloc uses (they stay with the block) and those that
//!   differ from block to block.
//! - thread-locals of a library loaded later: not in static TLS; but then the loader's list of modules has grown.
//! - values of pthread keys: not in static TLS either; but then somebody has created a key since start-up, or the block
//!   says that it uses one of those that existed then.
//!
//! The last two are looked at process-wide, in memory that is always in the cache: once they have happened, every goroutine
//! takes the long way.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::block;
use super::layout::Layout;

const MAX_WORDS: usize = 128;

pub(super) struct Pristine {
    /// Static TLS of a new block, from `-8 * count` on, and which bits of it count.
    expected: [usize; MAX_WORDS],
    mask: [usize; MAX_WORDS],
    count: usize,
    /// The last module's `l_next`: null as long as none was loaded since.
    next_module: *const AtomicPtr<u8>,
    /// The sequence number of the pthread key that the next creation will take, and its value so far.
    next_key: *const AtomicUsize,
    next_key_sequence: usize,
    /// Keys existed at start-up: then the byte that says whether the block uses any has to be looked at.
    keys_used: Option<usize>,
}

// SAFETY: immutable, and the two pointers refer to atomically read words of the loader and libc.
unsafe impl Send for Pristine {}
// SAFETY: as above.
unsafe impl Sync for Pristine {}

static PRISTINE: OnceLock<Option<Pristine>> = OnceLock::new();

/// Learns what a new block looks like. `tp` is one on which nothing ran yet; `current` is where `CURRENT` lies.
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
        next_module: end_of_module_list()?,
        next_key,
        // SAFETY: libc's key table lives for ever.
        next_key_sequence: unsafe { (*next_key).load(Ordering::Relaxed) },
        keys_used: if keys == 0 { None } else { Some(layout.key_data.used?) },
    };
    let words = |tp: usize| (tp - layout.used) as *const usize;
    for i in 0..count {
        // SAFETY: within the block.
        pristine.expected[i] = unsafe { *words(tp).add(i) };
        pristine.mask[i] = usize::MAX;
    }
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

extern "C" fn use_malloc() {
    for size in [24, 1000, 100_000] {
        // SAFETY: allocates and frees.
        unsafe { libc::free(std::hint::black_box(libc::malloc(size))) };
    }
}

/// Where the loader will put the next module: behind its own entry, if that is the last, as it is when no library was
/// loaded after start-up. The loader's own entry is never unloaded.
fn end_of_module_list() -> Option<*const AtomicPtr<u8>> {
    /// The public start of the loader's records (link.h).
    #[repr(C)]
    struct LinkMap {
        address: usize,
        name: *const libc::c_char,
        dynamic: *const u8,
        next: AtomicPtr<u8>,
        previous: *const LinkMap,
    }
    #[repr(C)]
    struct Debug {
        version: i32,
        map: *const LinkMap,
    }
    // SAFETY: `_r_debug` has this public layout, and the list is that of modules that are loaded.
    unsafe {
        let debug = libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()).cast::<Debug>();
        let mut map = debug.as_ref()?.map.as_ref()?;
        while let Some(next) = map.next.load(Ordering::Acquire).cast::<LinkMap>().as_ref() {
            map = next;
        }
        let name = std::ffi::CStr::from_ptr(map.name).to_bytes();
        let file = name.rsplit(|&b| b == b'/').next()?;
        file.starts_with(b"ld-linux").then_some(&raw const map.next)
    }
}

/// Whether the goroutine on the block at `tp` left nothing behind.
///
/// # Safety
/// `tp` is a complete block, and nobody else runs on it.
#[inline]
pub(super) unsafe fn is_untouched(tp: usize) -> bool {
    let Some(Some(pristine)) = PRISTINE.get() else { return false };
    // SAFETY: see `look`.
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
