//! Whether the hooks do something: from `enable` on, in this process, but not in its children.
//!
//! The flag lies in a page that the kernel wipes in the child of a fork (MADV_WIPEONFORK). So every child
//! sees it unset, however it was made: by fork, or by `_Fork` and `clone`, which run no handlers.
//!
//! A child of vfork shares the memory of its parent, so it sees the flag. One thread of the parent is stopped
//! meanwhile, the others go on, and need the hooks: a wake-up that went to the kernel alone would miss the
//! goroutines in the futex table. So gort's own `vfork` counts the children (`arch/x86_64/vfork.rs`), and
//! while there are any, each caller asks the kernel which process it is. (A mark in thread-local storage
//! would save that system call, but a goroutine can be preempted between the mark and the vfork, and go on
//! with another thread.)

use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::arch;
use crate::sys::{mem, process};

static NEVER: AtomicBool = AtomicBool::new(false);
/// The flag. Until `turn_on` it is one that nobody sets.
static FLAG: AtomicPtr<AtomicBool> = AtomicPtr::new((&raw const NEVER).cast_mut());
/// The process that has set the flag.
static PROCESS: AtomicU32 = AtomicU32::new(0);

#[inline]
pub(in crate::transparent) fn is_on() -> bool {
    // SAFETY: a static, or a page that is never unmapped. Acquire pairs with the release in `turn_on`.
    unsafe { &*FLAG.load(Ordering::Acquire) }.load(Ordering::Relaxed)
        && (arch::VFORKS.load(Ordering::Relaxed) == 0 || is_own_process())
}

/// As [`is_on`], without a call: false also while there are children of vfork.
#[inline]
pub(in crate::transparent) fn is_on_for_sure() -> bool {
    // SAFETY: as in `is_on`.
    unsafe { &*FLAG.load(Ordering::Acquire) }.load(Ordering::Relaxed)
        && arch::VFORKS.load(Ordering::Relaxed) == 0
}

/// The process in which the hooks are on.
pub(in crate::transparent) fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// False in a child of vfork.
#[cold]
#[inline(never)]
fn is_own_process() -> bool {
    process::id() == self::process()
}

pub(in crate::transparent) fn turn_on() -> io::Result<()> {
    if is_on() {
        return Ok(());
    }
    let page = mem::reserve(mem::PAGE)?;
    if let Err(error) = mem::wipe_on_fork(page, mem::PAGE) {
        // SAFETY: nobody else has its address.
        unsafe { mem::release(page, mem::PAGE) };
        return Err(error);
    }
    PROCESS.store(process::id(), Ordering::Relaxed);
    let flag: *mut AtomicBool = std::ptr::with_exposed_provenance_mut(page);
    // SAFETY: zeroed memory is an AtomicBool.
    unsafe { &*flag }.store(true, Ordering::Relaxed);
    // Release: whoever sees the flag sees the process.
    FLAG.store(flag, Ordering::Release);
    Ok(())
}
