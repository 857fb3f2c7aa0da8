//! x86-64, System V ABI: switching stacks, the thread pointer, registers for unwinding, what a signal
//! interrupted, system calls.

mod call_instruction;
mod libc_syscall;
mod registers;
mod signal_frame;
mod switch;
mod thread_pointer;
#[cfg(feature = "transparent")]
mod vfork;

use std::arch::asm;
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

pub(crate) use self::call_instruction::{Call, call_at_end};
#[cfg(feature = "transparent")]
pub(crate) use self::libc_syscall::libc_syscall;
pub(crate) use self::libc_syscall::{LIBC_SYSCALL_NUMBER, libc_syscall_end};
pub(crate) use self::registers::{
    FRAME_POINTER, REGISTER_COUNT, RETURN_ADDRESS, Registers, STACK_POINTER, is_callee_saved, own_registers,
    unwind_from,
};
pub(crate) use self::signal_frame::{SignalFrame, call_before};
pub(crate) use self::switch::{
    FOR_DEBUGGERS, Message, Suspended, jump, prepare, saved_registers, suspended, switch,
};
pub(crate) use self::thread_pointer::{
    carry_with_thread_pointer, load_at_thread_pointer, set_thread_pointer, thread_pointer,
    thread_pointer_init, thread_pointer_is_fast,
};
#[cfg(feature = "transparent")]
pub(crate) use self::vfork::{VFORKS, vfork_address};

/// A function may use this many bytes below its stack pointer without reserving them (psABI).
pub(crate) const RED_ZONE: usize = 128;

/// The caller's stack pointer.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let stack: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) stack, options(pure, nomem, nostack, preserves_flags)) };
    stack
}

/// Whether valgrind runs this program. Its signal frames can only be left by the thread that they were made
/// for.
pub(crate) fn runs_on_valgrind() -> bool {
    const RUNNING_ON_VALGRIND: usize = 0x1001;
    let request = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
    let answer: usize;
    // SAFETY: valgrind recognises the sequence and reads the request; a CPU does nothing.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") 0usize => answer,
            in("rdi") 0,
            options(nostack),
        );
    }
    answer != 0
}

/// Prefetches the cache line at `address`.
#[inline(always)]
pub(crate) fn prefetch(address: usize) {
    // SAFETY: a prefetch has no effect on the program, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address as *const i8) };
}

/// Performs system call `number`. Returns what the kernel returned: negative errno values mean failure.
///
/// # Safety
/// As the system call itself.
#[inline]
pub(crate) unsafe fn syscall6(
    number: libc::c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    let result: isize;
    // SAFETY: the kernel clobbers rcx and r11 only; the caller vouches for the arguments.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}
