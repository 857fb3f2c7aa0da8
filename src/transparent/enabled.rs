//! Whether the hooks do something: from `enable` on, in this process, but not in its children.
//!
//! The flag lies in a page that the kernel wipes in the child of a fork (MADV_WIPEONFORK). So every child
//! sees it unset, however it was made: by fork, or by `_Fork` and `clone`, which run no handlers. A child of
//! vfork shares the memory of its parent, whose thread is stopped meanwhile: gort's own `vfork` counts
//! (`arch/x86_64/vfork.rs`), and while there is such a child, the hooks do nothing in either process.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::arch;
use crate::sys::mem;

static NEVER: AtomicBool = AtomicBool::new(false);
/// The flag. Until `turn_on` it is one that nobody sets.
static FLAG: AtomicPtr<AtomicBool> = AtomicPtr::new((&raw const NEVER).cast_mut());

#[inline]
pub(super) fn is_on() -> bool {
    // SAFETY: a static, or a page that is never unmapped. Acquire pairs with the release in `turn_on`.
    unsafe { &*FLAG.load(Ordering::Acquire) }.load(Ordering::Relaxed)
        && arch::VFORKS.load(Ordering::Relaxed) == 0
}

pub(super) fn turn_on() -> io::Result<()> {
    if is_on() {
        return Ok(());
    }
    let page = mem::reserve(mem::PAGE)?;
    if let Err(error) = mem::wipe_on_fork(page, mem::PAGE) {
        // SAFETY: nobody else has its address.
        unsafe { mem::release(page, mem::PAGE) };
        return Err(error);
    }
    let flag: *mut AtomicBool = std::ptr::with_exposed_provenance_mut(page);
    // SAFETY: zeroed memory is an AtomicBool.
    unsafe { &*flag }.store(true, Ordering::Relaxed);
    FLAG.store(flag, Ordering::Release);
    Ok(())
}
