//! Libraries that are loaded while goroutines run.
//!
//! Ordinary (dynamic) thread-locals of theirs need nothing: the loader makes them when a goroutine first uses them. Some
//! libraries insist on static ones (the initial-exec model: OpenGL, OpenMP, a few allocators). The loader then takes
//! space right below what the other modules have, in all the threads that it knows; and whenever a block is made it
//! writes the new module's initial values there. Blocks keep [`SPARE`] bytes for this. Should a library need more, no
//! block is made any more: its values would overwrite the G and the stack below the block.
//!
//! What the loader has done is looked at when a block is made, and now and then by the steward. Goroutines on older
//! blocks find zeroes in such a library's variables instead of initial values, until it has been noticed.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::block;
use super::layout::{self, Layout, Module};

/// Room for static thread-locals of libraries loaded later. As much as fits into a parked goroutine's page besides.
pub(super) const SPARE: usize = 256;

/// The loader's count of loaded libraries at the last look.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// The modules in the spare room, with copies of their images: libraries can be unloaded. Old lists are leaked.
static IN_SPARE_ROOM: AtomicPtr<Vec<Module>> = AtomicPtr::new(ptr::null_mut());

/// Before the layout is found: what is loaded now is part of it.
pub(super) fn init() {
    SEEN.store(count(), Ordering::Release);
}

/// What has to be put back into the spare room of a block for its next goroutine.
pub(super) fn modules() -> &'static [Module] {
    // SAFETY: lists are leaked. Acquire pairs with the release in `look`.
    unsafe { IN_SPARE_ROOM.load(Ordering::Acquire).as_ref() }.map_or(&[], Vec::as_slice)
}

/// Whether the loader can make a block now. The caller may allocate.
pub(super) fn check(layout: &Layout) -> io::Result<()> {
    let count = count();
    // Acquire pairs with the release in `look`: the list is at least that new.
    if SEEN.load(Ordering::Acquire) == count { Ok(()) } else { look(layout, count) }
}

/// Looks whether there are new libraries, for the steward.
pub(crate) fn notice() {
    if let Ok(layout) = block::layout() {
        let _ = check(layout);
    }
}

#[cold]
fn look(layout: &Layout, count: u64) -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Only a new thread is sure to know all modules.
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
                "a library that was loaded after the first goroutine started needs {} bytes of static thread-local \
                 storage, more than gort keeps for this; load or link it before",
                module.size
            ),
        ));
    }
    IN_SPARE_ROOM.store(Box::leak(Box::new(new)), Ordering::Release);
    SEEN.store(count, Ordering::Release);
    Ok(())
}

fn keep_image(module: Module) -> Module {
    // SAFETY: the module was loaded just now. Should it be unloaded this very moment, the program is broken anyway: it
    // unloads a library whose variables its threads have.
    let image = unsafe { std::slice::from_raw_parts(module.image as *const u8, module.image_size) }.to_vec();
    Module { image: image.leak().as_ptr() as usize, ..module }
}

/// How many libraries the loader has loaded so far.
fn count() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid record, and `data` is our number.
        unsafe { *data.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut count = 0u64;
    // SAFETY: the callback matches the type and writes the number.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}
