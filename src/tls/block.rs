//! TLS blocks: creates a block in memory that the runtime owns, and refreshes it for its next goroutine.
//!
//! Life of a block: [`create`] turns zeroed memory into a block. Then, any number of times: a goroutine runs
//! on it; [`run_destructors`] runs on the block, still inside the goroutine; [`refresh`] runs when no
//! goroutine is on it. After a refresh, the thread-locals of every module but libc have the values of a new
//! thread. libc's part stays as it is: its words for malloc are the M's (`malloc_cache.rs`), and
//! `run_destructors` resets the libc state that a program can see.

use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};

use super::layout::{self, KeyData, Layout};
use super::{loaded, pristine};
use crate::arch;
use crate::sys::sanitizer::Fiber;
use crate::sys::thread;

/// Offsets at the head of the TCB that the x86-64 ABI and glibc fix.
pub(super) mod tcb {
    pub(super) const TCB: usize = 0x00;
    pub(in crate::tls) const DTV: usize = 0x08;
    pub(super) const SELF: usize = 0x10;
    pub(super) const MULTIPLE_THREADS: usize = 0x18;
    pub(super) const CANARY: usize = 0x28;
    pub(super) const POINTER_GUARD: usize = 0x30;
    pub(super) const FEATURES: usize = 0x48;
}

/// The `cpu_id` of an rseq area that is not registered with the kernel. `sched_getcpu` then makes a system
/// call.
const RSEQ_UNREGISTERED: i32 = -2;

/// `LC_GLOBAL_LOCALE`.
const GLOBAL_LOCALE: libc::locale_t = usize::MAX as libc::locale_t;

static LAYOUT: OnceLock<Result<Layout, String>> = OnceLock::new();

/// The layout of TLS blocks, found on the first call. The error says what this platform lacks.
pub(crate) fn layout() -> Result<&'static Layout, &'static str> {
    LAYOUT.get_or_init(layout::find).as_ref().map_err(String::as_str)
}

fn known() -> &'static Layout {
    match layout() {
        Ok(layout) => layout,
        Err(_) => unreachable!("blocks are made only after the layout was found"),
    }
}

unsafe fn put<T>(tp: usize, offset: usize, value: T) {
    // SAFETY: the caller passes offsets of fields within the block.
    unsafe { ((tp + offset) as *mut T).write(value) }
}

unsafe fn get<T: Copy>(tp: usize, offset: usize) -> T {
    // SAFETY: as for `put`.
    unsafe { *((tp + offset) as *const T) }
}

/// Turns the memory around `tp` into a TLS block, for code whose stack has `stack_size` bytes at `stack`.
///
/// # Safety
/// `[tp - below, tp + above)` of the [`Layout`] is writable, zeroed, unused memory, `tp` is aligned, and the
/// caller may allocate (it holds no runtime lock).
pub(crate) unsafe fn create(tp: usize, stack: usize, stack_size: usize) -> io::Result<()> {
    let layout = known();
    loaded::check(layout)?;
    let own = arch::thread_pointer();
    // SAFETY: all offsets were verified to lie in the descriptor, whose memory the caller hands over.
    unsafe {
        // Allocates the thread vector (dtv), and copies the initial values of all modules' thread-locals.
        if (layout.functions.allocate)(tp as *mut c_void).is_null() {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "no memory for a goroutine's thread-local storage",
            ));
        }
        put(tp, tcb::TCB, tp);
        put(tp, tcb::SELF, tp);
        // If this were 0, malloc would skip its locks.
        put(tp, tcb::MULTIPLE_THREADS, 1u32);
        put(tp, tcb::CANARY, get::<usize>(own, tcb::CANARY));
        put(tp, tcb::POINTER_GUARD, get::<usize>(own, tcb::POINTER_GUARD));
        put(tp, tcb::FEATURES, get::<u32>(own, tcb::FEATURES));
        put(tp, layout.tid, new_id());
        if let Some((offset, value)) = layout.alive {
            put(tp, offset, value);
        }
        put(tp, layout.stack_address, stack);
        put(tp, layout.stack_size, stack_size);
        put(tp, layout.key_data.specific, tp + layout.key_data.first_block);
        // Two empty circular lists: `fork` unlinks the first, robust mutexes use the second.
        put(tp, layout.list, tp + layout.list);
        put(tp, layout.list + 8, tp + layout.list);
        let robust = tp + layout.robust_head;
        put(tp, layout.robust_head, robust);
        put(tp, layout.robust_head + 8, layout.robust_futex_offset);
        put(tp, layout.robust_head - 8, robust);
        put(tp.wrapping_add_signed(layout.resolver_pointer), 0, tp + layout.resolver_state);
        if let Some(rseq) = layout.rseq {
            put(tp.wrapping_add_signed(rseq), 4, RSEQ_UNREGISTERED);
        }
        on_block(tp, || (layout.functions.ctype_init)());
    }
    Ok(())
}

/// Runs `f` with the thread pointer at `tp`.
pub(super) unsafe fn on_block(tp: usize, f: impl FnOnce()) {
    let own = arch::thread_pointer();
    // SAFETY: no other code runs on the block, and this code returns to its own block before it touches TLS
    // again.
    unsafe {
        arch::set_thread_pointer(tp);
        f();
        arch::set_thread_pointer(own);
    }
}

/// The id of the first block, in the place where a thread has the kernel's id. Locks that know their owner
/// (recursive and error-checking mutexes, rwlocks, the loader's lock) compare these ids. So each block has
/// one of its own, above those of the kernel (which end at 2²²) and within the 30 bits that a futex has for
/// an owner. Functions that pass the id to the kernel need the M's: see `sched/block/thread_id.rs`.
const FIRST_ID: u32 = 1 << 29;

/// A number that no other block of this process has. Processes begin at random numbers, because a lock in
/// shared memory compares the ids of several.
fn new_id() -> u32 {
    static START: OnceLock<u32> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let start = *START.get_or_init(|| RandomState::new().hash_one(0) as u32);
    FIRST_ID | (start.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed)) & (FIRST_ID - 1))
}

/// Blocks have the ids of the threads that run them: see [`follow_threads`].
static FOLLOW_THREADS: AtomicBool = AtomicBool::new(false);

/// From now on blocks have the ids of the threads that run them. For programs in which libc passes ids to the
/// kernel without asking us.
pub(crate) fn follow_threads() {
    FOLLOW_THREADS.store(true, Ordering::Relaxed);
}

/// Called when the thread `tid` begins to run on the block at `tp`.
///
/// # Safety
/// `tp` is a block that the calling thread owns.
#[inline]
pub(crate) unsafe fn moved(tp: usize, tid: u32) {
    if FOLLOW_THREADS.load(Ordering::Relaxed) {
        // SAFETY: the caller's promise.
        unsafe { put(tp, known().tid, tid) };
    }
}

/// Runs `f` while the block at `tp` has the kernel's id of the calling thread in place of its own. Meanwhile
/// [`has_own_id`] is false, so that the goroutine keeps its thread.
///
/// # Safety
/// The caller runs on the block at `tp`; `f` takes no lock that knows its owner.
pub(crate) unsafe fn with_kernel_id<R>(tp: usize, f: impl FnOnce() -> R) -> R {
    let offset = known().tid;
    // SAFETY: a field of the block, which the caller owns.
    unsafe {
        let own: u32 = get(tp, offset);
        // From here on the goroutine keeps its thread, so that the id stays right.
        put(tp, offset, 0u32);
        compiler_fence(Ordering::SeqCst);
        put(tp, offset, thread::tid());
        let result = f();
        compiler_fence(Ordering::SeqCst);
        put(tp, offset, own);
        result
    }
}

/// Whether the block has an id of its own, and not that of a thread: then the goroutine may move to another
/// thread at any instruction. Safe in a signal handler.
///
/// # Safety
/// `tp` is a block, and the calling thread runs on it.
pub(crate) unsafe fn has_own_id(tp: usize) -> bool {
    // SAFETY: a field of the block.
    unsafe { get::<u32>(tp, known().tid) >= FIRST_ID }
}

/// What the sanitizers know about the goroutine of the block at `tp`; `None` without sanitizers.
///
/// # Safety
/// The memory at `tp` was laid out for a block, complete or still zeroed, and the caller owns it.
pub(crate) unsafe fn fiber_of(tp: usize) -> Option<&'static Fiber> {
    // SAFETY: the layout has room for it there, and all zeroes is a valid one. Blocks are never unmapped.
    known().fiber.map(|offset| unsafe { &*((tp + offset) as *const Fiber) })
}

/// Whether the goroutine on this block has left its thread-locals as it found them. If so, neither
/// [`run_destructors`] nor [`refresh`] has anything to do.
///
/// # Safety
/// The caller runs on the private block at `tp`.
#[inline]
pub(crate) unsafe fn is_untouched(tp: usize) -> bool {
    // SAFETY: passed on.
    unsafe { pristine::is_untouched(tp) }
}

/// Does for a goroutine's thread-locals what happens at a thread's end: runs the destructors of
/// `thread_local!`s and of pthread keys, and resets errno, `h_errno`, the loader's last error, the locale
/// and the state of cancellation.
///
/// # Safety
/// The caller runs on a private block, is about to leave it for good, and uses no thread-local afterwards.
pub(crate) unsafe fn run_destructors() {
    let layout = known();
    let tp = arch::thread_pointer();
    // A key's destructor may use a thread-local for the first time, and a thread-local's destructor may set a
    // key again. On a thread such values would vanish with its memory; here the next goroutine would find
    // them.
    for _ in 0..KEY_DESTRUCTOR_ROUNDS {
        // SAFETY: the function runs and clears the list of destructors of the current thread pointer.
        unsafe { (layout.functions.call_destructors)() };
        // SAFETY: this code runs on the block at `tp`.
        if !unsafe { run_key_destructors(layout, tp) } {
            break;
        }
    }
    // `dlerror` clears the loader's last error.
    // SAFETY: uselocale(null) only reads; the global locale is what a new thread has; both fields lie in the
    // block.
    unsafe {
        libc::dlerror();
        pthread_setcancelstate(CANCEL_ENABLE, std::ptr::null_mut());
        pthread_setcanceltype(CANCEL_DEFERRED, std::ptr::null_mut());
        if libc::uselocale(std::ptr::null_mut()) != GLOBAL_LOCALE {
            libc::uselocale(GLOBAL_LOCALE);
            (layout.functions.ctype_init)();
        }
        put(tp.wrapping_add_signed(layout.errno), 0, 0i32);
        put(tp.wrapping_add_signed(layout.h_errno), 0, 0i32);
    }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
    fn pthread_setcanceltype(kind: i32, before: *mut i32) -> i32;
}

/// What a new thread has (pthread.h).
const CANCEL_ENABLE: i32 = 0;
const CANCEL_DEFERRED: i32 = 0;

/// How often destructors run again because one of them set a new value. POSIX wants a bounded number of
/// rounds.
const KEY_DESTRUCTOR_ROUNDS: usize = 4;

/// Runs the destructors of the block's pthread keys and clears all values. Returns whether any destructor
/// ran.
unsafe fn run_key_destructors(layout: &Layout, tp: usize) -> bool {
    let keys = &layout.key_data;
    let mut some = false;
    for round in 0..=KEY_DESTRUCTOR_ROUNDS {
        if let Some(used) = keys.used {
            // SAFETY: a byte of the descriptor.
            unsafe {
                if get::<u8>(tp, used) == 0 {
                    break;
                }
                put(tp, used, 0u8);
            }
        }
        let mut again = false;
        for block in 0..keys.blocks {
            // SAFETY: `specific` is an array of `blocks` pointers inside the descriptor.
            let values: usize = unsafe { get(tp, keys.specific + block * 8) };
            if values == 0 {
                continue;
            }
            for i in 0..keys.keys_per_block {
                let (entry, key) = (values + i * keys.entry_size, block * keys.keys_per_block + i);
                if keys.of_thread == Some(key) {
                    continue;
                }
                // SAFETY: a block of values has `keys_per_block` entries.
                let Some((value, destructor)) = (unsafe { take_key_value(keys, entry, key) }) else {
                    continue;
                };
                // Values that remain after the last round are dropped: the next goroutine must not see them.
                if round < KEY_DESTRUCTOR_ROUNDS {
                    again = true;
                    // SAFETY: the program registered the destructor for values of this key.
                    unsafe { destructor(value) };
                }
            }
        }
        some |= again;
        if !again {
            break;
        }
    }
    some
}

type KeyDestructor = unsafe extern "C" fn(*mut c_void);

/// Clears an entry. Returns its value and destructor, if it has one and the key has not been deleted since.
unsafe fn take_key_value(keys: &KeyData, entry: usize, key: usize) -> Option<(*mut c_void, KeyDestructor)> {
    // SAFETY: the entry belongs to the running code's block; the table has an entry for each possible key.
    unsafe {
        let value: *mut c_void = get(entry, keys.entry_value);
        if value.is_null() {
            return None;
        }
        put(entry, keys.entry_value, std::ptr::null_mut::<c_void>());
        let key = keys.key_table + key * keys.key_size;
        if get::<usize>(entry, keys.entry_sequence) != get::<usize>(key, keys.key_sequence) {
            return None;
        }
        get::<Option<KeyDestructor>>(key, keys.key_destructor).map(|destructor| (value, destructor))
    }
}

/// Prepares a block that its last goroutine has left for the next goroutine. Touches no TLS of the caller.
///
/// Returns false if the last goroutine used thread-locals of a library loaded by `dlopen`. The caller must
/// then call [`rebuild`], from its own thread pointer and where it may allocate.
///
/// # Safety
/// `tp` is a block that nobody runs on.
#[must_use]
pub(crate) unsafe fn refresh(tp: usize) -> bool {
    let layout = known();
    // SAFETY: the block is complete and nobody uses it.
    unsafe {
        let dtv: usize = get(tp, tcb::DTV);
        // The loader raises the block's generation when it updates the block after a module was loaded or
        // unloaded.
        let unchanged = get::<usize>(dtv, 0) == layout.generation;
        if !(unchanged && layout.all_static) && has_dynamic_part(dtv) {
            return false;
        }
        refresh_static(layout, tp);
    }
    true
}

/// Whether the loader has allocated memory for thread-locals outside of the block.
unsafe fn has_dynamic_part(dtv: usize) -> bool {
    // SAFETY: entry -1 of the vector holds the number of entries that follow entry 0.
    unsafe {
        let entries: usize = get(dtv - DTV_ENTRY, 0);
        (1..=entries).any(|id| get::<usize>(dtv + id * DTV_ENTRY, DTV_TO_FREE) != 0)
    }
}

/// The size of an entry of the thread vector (dtv), in bytes. Entry -1 holds the number of entries, entry 0
/// the generation, each other entry a module's (value, pointer to free).
const DTV_ENTRY: usize = 16;
/// The offset of the pointer to free in an entry.
const DTV_TO_FREE: usize = 8;

/// Gives the static thread-locals of all modules but libc their initial values.
unsafe fn refresh_static(layout: &Layout, tp: usize) {
    for module in layout.modules.iter().chain(loaded::modules()).filter(|m| !m.is_libc) {
        let start = (tp - module.offset) as *mut u8;
        // SAFETY: each module's part of the block has `size` bytes, its image `image_size`.
        unsafe {
            std::ptr::copy_nonoverlapping(module.image as *const u8, start, module.image_size);
            std::ptr::write_bytes(start.add(module.image_size), 0, module.size - module.image_size);
        }
    }
}

/// Like [`refresh`], but also frees dynamic thread-locals.
///
/// # Safety
/// `tp` is a block that nobody runs on; the caller may allocate.
pub(crate) unsafe fn rebuild(tp: usize) -> io::Result<()> {
    let layout = known();
    loaded::check(layout)?;
    let libc = layout.modules.iter().find(|m| m.is_libc).expect("checked when the layout was found");
    let mut kept = vec![0u8; libc.size];
    let libc_part = (tp - libc.offset) as *mut u8;
    // SAFETY: nobody runs on the block while the loader frees what it allocated for it and fills it anew. The
    // loader also overwrites libc's variables; the copy puts them back as they were.
    unsafe {
        std::ptr::copy_nonoverlapping(libc_part, kept.as_mut_ptr(), libc.size);
        (layout.functions.deallocate)(tp as *mut c_void, false);
        if (layout.functions.allocate)(tp as *mut c_void).is_null() {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<[usize; 64]>());
        }
        std::ptr::copy_nonoverlapping(kept.as_ptr(), libc_part, libc.size);
    }
    Ok(())
}
