//! The thread pointer: the FS base.

use std::arch::asm;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

use super::syscall6;

/// Bit of AT_HWCAP2: the kernel lets user code execute `wrfsbase`.
const HWCAP2_FSGSBASE: u64 = 1 << 1;
const ARCH_SET_FS: usize = 0x1002;

static HAVE_WRFSBASE: AtomicBool = AtomicBool::new(false);
/// Whether [`set_thread_pointer`] is just the instruction: the kernel allows it, and no words are carried.
static JUST_WRFSBASE: AtomicBool = AtomicBool::new(false);

/// The words that [`carry_with_thread_pointer`] named; 0 is none.
static CARRIED: [AtomicIsize; 3] = [const { AtomicIsize::new(0) }; 3];

/// Makes the word at `offset` from the thread pointer one of the OS thread and not of the block: each change
/// of the thread pointer copies it. False: there are too many such words.
pub(crate) fn carry_with_thread_pointer(offset: isize) -> bool {
    JUST_WRFSBASE.store(false, Ordering::Relaxed);
    let free = |word: &&AtomicIsize| word.load(Ordering::Relaxed) == 0;
    CARRIED.iter().find(free).map(|word| word.store(offset, Ordering::Relaxed)).is_some()
}

/// Whether the kernel lets user code write the thread pointer by an instruction.
pub(crate) fn thread_pointer_is_fast() -> Option<bool> {
    // SAFETY: getauxval only reads the auxiliary vector.
    let hwcap2 = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    Some(hwcap2 & HWCAP2_FSGSBASE != 0)
}

/// Finds out how the thread pointer (the FS base) can be written. Called once, before the first switch.
pub(crate) fn thread_pointer_init() {
    let fast = thread_pointer_is_fast() == Some(true);
    HAVE_WRFSBASE.store(fast, Ordering::Relaxed);
    JUST_WRFSBASE.store(fast, Ordering::Relaxed);
}

/// The running code's thread pointer. The ABI keeps a copy of it at offset 0.
#[inline]
pub(crate) fn thread_pointer() -> usize {
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
pub(crate) unsafe fn set_thread_pointer(tp: usize) {
    if JUST_WRFSBASE.load(Ordering::Relaxed) {
        // SAFETY: the kernel allows the instruction; the caller vouches for the value.
        unsafe { asm!("wrfsbase {}", in(reg) tp, options(nostack, preserves_flags)) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { set_thread_pointer_slowly(tp) };
    }
}

#[cold]
#[inline(never)]
unsafe fn set_thread_pointer_slowly(tp: usize) {
    let own = thread_pointer();
    for offset in CARRIED.iter().map(|word| word.load(Ordering::Relaxed)).filter(|&offset| offset != 0) {
        let word = |tp: usize| tp.wrapping_add_signed(offset) as *mut usize;
        // SAFETY: every block has the word, and the caller owns both.
        unsafe { *word(tp) = *word(own) };
    }
    // SAFETY: the caller vouches for the value; the instruction is used where the kernel allows it.
    unsafe {
        if HAVE_WRFSBASE.load(Ordering::Relaxed) {
            asm!("wrfsbase {}", in(reg) tp, options(nostack, preserves_flags));
        } else {
            syscall6(libc::SYS_arch_prctl, ARCH_SET_FS, tp, 0, 0, 0, 0);
        }
    }
}

/// The word at `offset` from the thread pointer, by one load.
///
/// # Safety
/// A word of static thread-local storage lies there in every thread and in every block.
#[inline(always)]
pub(crate) unsafe fn load_at_thread_pointer(offset: isize) -> usize {
    let word: usize;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "mov {word}, fs:[{offset}]",
            word = out(reg) word,
            offset = in(reg) offset,
            options(nostack, preserves_flags, readonly)
        )
    };
    word
}
