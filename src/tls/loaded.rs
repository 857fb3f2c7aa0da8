//! Keeps TLS blocks correct when a library is loaded while goroutines run.
//!
//! A library's ordinary (dynamic) thread-locals need no care: the loader allocates them when a goroutine
//! first uses them. Some libraries insist on static ones (the initial-exec model: OpenGL, OpenMP, a few
//! allocators). The loader then takes space right below the other modules' space, in every thread that it
//! knows. Whenever a block is made, the loader also writes the new module's initial values there. Blocks keep
//! [`SPARE`] bytes for this. If a library needs more, gort makes no more blocks, because the library's values
//! would overwrite the G and the stack below the block.
//!
//! gort checks for new libraries whenever it makes a block, and its housekeeping thread checks now and then.
//! Until gort has noticed a library, goroutines on older blocks find zeroes in its static thread-locals
//! instead of initial values.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::block;
use super::layout::{self, Layout, Module};

/// Bytes in each block for static thread-locals of libraries that are loaded later. A parked goroutine's page
/// has this much room left.
pub(super) const SPARE: usize = 256;

/// The loader's count of loaded libraries when gort last checked.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Where the loader links the next library, if none was loaded before gort started. As long as there is none,
/// nobody has to ask the loader. That matters, because the loader's lock may be held for long: by a goroutine
/// that waits in a callback of `dl_iterate_phdr`.
static LAST_LINK: AtomicPtr<AtomicPtr<u8>> = AtomicPtr::new(ptr::null_mut());

/// The modules in the spare room. Their images are copies, because a library can be unloaded. Old lists are
/// leaked.
static IN_SPARE_ROOM: AtomicPtr<Vec<Module>> = AtomicPtr::new(ptr::null_mut());

/// Called before the layout is found: the libraries that are loaded by then are part of the layout.
pub(super) fn init() {
    SEEN.store(count(), Ordering::Release);
    if let Some(link) = end_of_module_list() {
        LAST_LINK.store(link.cast_mut(), Ordering::Relaxed);
    }
}

/// The modules in the spare room of a block, whose initial values the block's next goroutine needs.
pub(super) fn modules() -> &'static [Module] {
    // Acquire pairs with the release in `look`.
    // SAFETY: lists are never freed.
    unsafe { IN_SPARE_ROOM.load(Ordering::Acquire).as_ref() }.map_or(&[], Vec::as_slice)
}

/// Fails if no block can be made any more, because a library needs more room than [`SPARE`]. The caller must
/// be allowed to allocate.
pub(super) fn check(layout: &Layout) -> io::Result<()> {
    // SAFETY: the word belongs to an entry that is never unloaded.
    if unsafe { LAST_LINK.load(Ordering::Relaxed).as_ref() }
        .is_some_and(|next| next.load(Ordering::Relaxed).is_null())
    {
        return Ok(());
    }
    let count = count();
    // Acquire pairs with the release in `look`: the list of modules is at least as new as the count.
    if SEEN.load(Ordering::Acquire) == count { Ok(()) } else { look(layout, count) }
}

/// Checks for new libraries. Called by the runtime's housekeeping thread.
pub(crate) fn notice() {
    if let Ok(layout) = block::layout() {
        let _ = check(layout);
    }
}

#[cold]
fn look(layout: &Layout, count: u64) -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Only a new thread is sure to have all modules in its thread vector.
    let found = std::thread::Builder::new()
        .name("gort-look".into())
        .spawn(|| layout::modules_now().map_err(io::Error::other))?
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("could not look at the loaded libraries")))?;
    let new = found.into_iter().filter(|module| layout.modules.iter().all(|old| old.offset != module.offset));
    let new: Vec<Module> = new.map(keep_image).collect();
    if let Some(module) = new.iter().find(|module| module.offset > layout.below) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "a library that was loaded after the first goroutine started needs {} bytes of static \
                 thread-local storage, more than gort keeps for this; load or link it before",
                module.size
            ),
        ));
    }
    IN_SPARE_ROOM.store(Box::leak(Box::new(new)), Ordering::Release);
    SEEN.store(count, Ordering::Release);
    Ok(())
}

/// Replaces the module's image by a copy that is never freed.
fn keep_image(module: Module) -> Module {
    // SAFETY: the module was loaded a moment ago. If the program unloads it right now, the program is broken
    // anyway: it unloads a library whose variables its threads have.
    let image = unsafe { std::slice::from_raw_parts(module.image as *const u8, module.image_size) }.to_vec();
    Module { image: image.leak().as_ptr() as usize, ..module }
}

/// The number of libraries that the loader has loaded so far.
fn count() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid record, and `data` points to `count`'s number.
        unsafe { *data.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut count = 0u64;
    // SAFETY: the callback has the right type, and the number outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

/// The address of the pointer where the loader will link the next module. `None` unless the loader's own
/// entry is the last of the list, as it is when no library was loaded after start-up; that entry is never
/// unloaded.
pub(super) fn end_of_module_list() -> Option<*const AtomicPtr<u8>> {
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
    // SAFETY: `_r_debug` has this public layout, and all modules of the list are loaded.
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
