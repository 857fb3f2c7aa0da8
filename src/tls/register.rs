//! The thread pointer: the FS base on x86-64.

use std::arch::asm;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::syscall::syscall6;

/// AT_HWCAP2 bit: the kernel lets user code execute `wrfsbase`.
const HWCAP2_FSGSBASE: u64 = 1 << 1;
const ARCH_SET_FS: usize = 0x1002;

static HAVE_WRFSBASE: AtomicBool = AtomicBool::new(false);

/// Finds out how the thread pointer can be written. Called once, before the first switch.
pub(super) fn init() {
    // SAFETY: getauxval only reads the auxiliary vector.
    let hwcap2 = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    HAVE_WRFSBASE.store(hwcap2 & HWCAP2_FSGSBASE != 0, Ordering::Relaxed);
}

/// The running code's thread pointer. The ABI keeps a copy of it at offset 0.
#[inline]
pub(crate) fn current() -> usize {
    let tp: usize;
    // SAFETY: the first word at the thread pointer is the TCB's own address (x86-64 psABI).
    unsafe { asm!("mov {}, fs:0", out(reg) tp, options(nostack, preserves_flags, readonly)) };
    tp
}

/// Makes `tp` the thread pointer.
///
/// # Safety
/// `tp` is the thread pointer of this OS thread or of a complete block that no other thread runs on, and
/// the caller holds no reference into the TLS that it leaves.
#[inline]
pub(crate) unsafe fn switch_to(tp: usize) {
    if HAVE_WRFSBASE.load(Ordering::Relaxed) {
        // SAFETY: the kernel allows the instruction; the caller vouches for the value.
        unsafe { asm!("wrfsbase {}", in(reg) tp, options(nostack, preserves_flags)) };
    } else {
        // SAFETY: as above, by system call.
        unsafe { syscall6(libc::SYS_arch_prctl, ARCH_SET_FS, tp, 0, 0, 0, 0) };
    }
}
