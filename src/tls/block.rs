//! TLS blocks: making one on memory that we own, refreshing it for its next goroutine, giving it up.
//!
//! Life of a block: [`create`] (memory zeroed → ready), then any number of: a goroutine runs on it,
//! [`run_destructors`] (on the block, still inside the goroutine), [`refresh`] (nobody runs on it). A
//! refreshed block has the values of a new thread in the thread-locals of every module but libc: malloc's
//! cache stays, as it would on a thread of a pool, and what of libc's state a program can see is reset by
//! `run_destructors`.

use std::ffi::c_void;
use std::io;
use std::sync::OnceLock;

use super::layout::{self, KeyData, Layout};
use super::{loaded, pristine, register};

/// What the x86-64 ABI and glibc fix at the head of the TCB.
pub(super) mod tcb {
    pub(super) const TCB: usize = 0x00;
    pub(in crate::tls) const DTV: usize = 0x08;
    pub(super) const SELF: usize = 0x10;
    pub(super) const MULTIPLE_THREADS: usize = 0x18;
    pub(super) const CANARY: usize = 0x28;
    pub(super) const POINTER_GUARD: usize = 0x30;
    pub(super) const FEATURES: usize = 0x48;
}

/// `cpu_id` of an rseq area that is not registered with the kernel: `sched_getcpu` then asks the kernel.
const RSEQ_UNREGISTERED: i32 = -2;

/// `LC_GLOBAL_LOCALE`.
const GLOBAL_LOCALE: libc::locale_t = usize::MAX as libc::locale_t;

static LAYOUT: OnceLock<Result<Layout, String>> = OnceLock::new();

/// The layout, found on the first call. The error says what this platform lacks.
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

/// Makes the memory around `tp` a TLS block whose code runs on the stack `[stack, stack + stack_size)`.
///
/// # Safety
/// `[tp - below, tp + above)` of the [`Layout`] is writable, zeroed, unused memory, `tp` is aligned, and the
/// caller may allocate (it holds no runtime lock).
pub(crate) unsafe fn create(tp: usize, stack: usize, stack_size: usize) -> io::Result<()> {
    let layout = known();
    loaded::check(layout)?;
    let own = register::current();
    // SAFETY: all offsets were verified to lie in the descriptor, which the caller gave us.
    unsafe {
        // The thread vector and the images of all modules' thread-locals.
        if (layout.functions.allocate)(tp as *mut c_void).is_null() {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "no memory for a goroutine's thread-local storage",
            ));
        }
        put(tp, tcb::TCB, tp);
        put(tp, tcb::SELF, tp);
        // Left 0, malloc would skip its locks.
        put(tp, tcb::MULTIPLE_THREADS, 1u32);
        put(tp, tcb::CANARY, get::<usize>(own, tcb::CANARY));
        put(tp, tcb::POINTER_GUARD, get::<usize>(own, tcb::POINTER_GUARD));
        put(tp, tcb::FEATURES, get::<u32>(own, tcb::FEATURES));
        put(tp, layout.stack_address, stack);
        put(tp, layout.stack_size, stack_size);
        put(tp, layout.key_data.specific, tp + layout.key_data.first_block);
        // Lists that hold only themselves: `fork` unlinks the one, robust mutexes use the other.
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
        on_block(tp, layout.functions.ctype_init);
    }
    Ok(())
}

/// Runs `f` with the thread pointer at `tp`.
pub(super) unsafe fn on_block(tp: usize, f: unsafe extern "C" fn()) {
    let own = register::current();
    // SAFETY: nobody else runs on the block, and we return to our own before we touch our TLS again.
    unsafe {
        set_tid(tp, get::<u32>(own, known().tid));
        register::switch_to(tp);
        f();
        register::switch_to(own);
    }
}

/// Tells the block which OS thread runs on it from now on: recursive mutexes and `raise` look at it.
///
/// # Safety
/// `tp` is a block or a thread's own, and nobody else runs on it.
#[inline]
pub(crate) unsafe fn set_tid(tp: usize, tid: u32) {
    // SAFETY: the caller's promise.
    unsafe { put(tp, tid_offset(), tid) }
}

/// Where that thread id is.
#[inline]
pub(crate) fn tid_in(tp: usize) -> usize {
    tp + tid_offset()
}

#[inline]
fn tid_offset() -> usize {
    static OFFSET: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let offset = OFFSET.load(std::sync::atomic::Ordering::Relaxed);
    if offset != 0 {
        return offset;
    }
    OFFSET.store(known().tid, std::sync::atomic::Ordering::Relaxed);
    known().tid
}

/// Whether the current code has left its thread-locals as it found them: then neither [`run_destructors`] nor
/// [`refresh`] has anything to do.
///
/// # Safety
/// The caller runs on the private block at `tp`.
#[inline]
pub(crate) unsafe fn is_untouched(tp: usize) -> bool {
    // SAFETY: passed on.
    unsafe { pristine::is_untouched(tp) }
}

/// Ends the life of the current code as far as thread-locals are concerned: runs the destructors of
/// `thread_local!`s and of pthread keys, and resets errno, `h_errno`, the loader's last error and the locale.
///
/// # Safety
/// The caller runs on a private block and is about to leave it for good; it uses no thread-local afterwards.
pub(crate) unsafe fn run_destructors() {
    let layout = known();
    let tp = register::current();
    // Destructors of keys may use thread-locals for the first time, and those set keys again. A thread would forget all that
    // with its memory; here it would be the next goroutine's.
    for _ in 0..KEY_DESTRUCTOR_ROUNDS {
        // SAFETY: the function runs and clears the list of destructors of the current thread pointer.
        unsafe { (layout.functions.call_destructors)() };
        // SAFETY: we run on the block.
        if !unsafe { run_key_destructors(layout, tp) } {
            break;
        }
    }
    // SAFETY: uselocale(null) only reads; the global locale is what new threads have. Asking for the loader's error
    // forgets it.
    unsafe {
        libc::dlerror();
        if libc::uselocale(std::ptr::null_mut()) != GLOBAL_LOCALE {
            libc::uselocale(GLOBAL_LOCALE);
            (layout.functions.ctype_init)();
        }
        put(tp.wrapping_add_signed(layout.errno), 0, 0i32);
        put(tp.wrapping_add_signed(layout.h_errno), 0, 0i32);
    }
}

/// POSIX: repeat while destructors set new values, a bounded number of times.
const KEY_DESTRUCTOR_ROUNDS: usize = 4;

/// True: there were some.
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
                // SAFETY: a block of values has `keys_per_block` entries.
                let Some((value, destructor)) = (unsafe { take_key_value(keys, entry, key) }) else {
                    continue;
                };
                // After the last round values are forgotten: the next goroutine must not see them.
                if round < KEY_DESTRUCTOR_ROUNDS {
                    again = true;
                    // SAFETY: the user registered it for values of this key.
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

/// Clears an entry. Returns what was in it and its destructor, if there is one and the key still is the same.
unsafe fn take_key_value(keys: &KeyData, entry: usize, key: usize) -> Option<(*mut c_void, KeyDestructor)> {
    // SAFETY: the entry is the running code's own; the table has an entry for each possible key.
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

/// Prepares a block that its last goroutine has left for the next one.
///
/// # Safety
/// `tp` is a block that nobody runs on. Touches no TLS of the caller unless the last goroutine used
/// thread-locals of a library loaded by `dlopen`: then it reports `false` and the caller, back on its own
/// thread pointer and free to allocate, must call [`rebuild`].
#[must_use]
pub(crate) unsafe fn refresh(tp: usize) -> bool {
    let layout = known();
    // SAFETY: the block is complete and nobody uses it.
    unsafe {
        let dtv: usize = get(tp, tcb::DTV);
        // The generation grows when a module is loaded or unloaded and the block has taken notice of it.
        let unchanged = get::<usize>(dtv, 0) == layout.generation;
        if !(unchanged && layout.all_static) && has_dynamic_part(dtv) {
            return false;
        }
        refresh_static(layout, tp);
    }
    true
}

unsafe fn has_dynamic_part(dtv: usize) -> bool {
    // SAFETY: entry -1 of the vector says how many entries follow entry 0.
    unsafe {
        let entries: usize = get(dtv - DTV_ENTRY, 0);
        (1..=entries).any(|id| get::<usize>(dtv + id * DTV_ENTRY, DTV_TO_FREE) != 0)
    }
}

/// The thread vector: entry -1 holds the number of entries, entry 0 the generation, each other entry a module's
/// (value, pointer to free).
const DTV_ENTRY: usize = 16;
const DTV_TO_FREE: usize = 8;

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

/// As [`refresh`], when dynamic thread-locals have to be freed too.
///
/// # Safety
/// `tp` is a block that nobody runs on; the caller may allocate.
pub(crate) unsafe fn rebuild(tp: usize) -> io::Result<()> {
    let layout = known();
    loaded::check(layout)?;
    let libc = layout.modules.iter().find(|m| m.is_libc).expect("checked when the layout was found");
    let mut kept = vec![0u8; libc.size];
    let libc_part = (tp - libc.offset) as *mut u8;
    // SAFETY: the loader frees what it allocated for this block and fills it anew; libc's variables, which it
    // fills too, are put back as they were.
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
