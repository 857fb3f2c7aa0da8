//! libc's function `syscall`, which makes the system call that its caller names.
//!
//! In libc's own code the number is only in rax when the `syscall` instruction runs, and the kernel
//! overwrites it with the result. This definition, which the linker prefers to libc's, also leaves the number
//! in the red zone, so that a signal handler can find out which call it interrupted (`sys/restart.rs`).

use std::arch::global_asm;

/// Where the number of the call is at [`libc_syscall_end`], in bytes from the stack pointer.
pub(crate) const LIBC_SYSCALL_NUMBER: isize = -8;

// syscall(number, a, b, c, d, e, f): f is on the stack. The function is variadic, so that rax says how many
// vector registers hold arguments: none that matter.
macro_rules! define {
    ($name:literal) => {
        global_asm!(
            ".balign 16",
            concat!(".globl ", $name),
            concat!(".type ", $name, ",@function"),
            concat!($name, ":"),
            ".cfi_startproc",
            "mov [rsp + {number}], rdi",
            "mov rax, rdi",
            "mov rdi, rsi",
            "mov rsi, rdx",
            "mov rdx, rcx",
            "mov r10, r8",
            "mov r8, r9",
            "mov r9, [rsp + 8]",
            "syscall",
            ".globl gort_libc_syscall_end",
            ".hidden gort_libc_syscall_end",
            "gort_libc_syscall_end:",
            "cmp rax, -4095",
            "jae 2f",
            "ret",
            // errno = -rax; return -1
            "2:",
            "push rbx",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset rbx, 0",
            "mov ebx, eax",
            "neg ebx",
            "call [rip + __errno_location@GOTPCREL]",
            "mov [rax], ebx",
            "mov rax, -1",
            "pop rbx",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_restore rbx",
            "ret",
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            number = const LIBC_SYSCALL_NUMBER,
        );
    };
}

#[cfg(not(feature = "transparent"))]
define!("syscall");
// `transparent/futex/call.rs` defines `syscall`, and calls this.
#[cfg(feature = "transparent")]
define!("gort_libc_syscall");

unsafe extern "C" {
    fn gort_libc_syscall_end();
    #[cfg(feature = "transparent")]
    fn gort_libc_syscall(number: libc::c_long, ...) -> libc::c_long;
}

/// Makes a system call as libc's `syscall` does, with errno.
///
/// # Safety
/// The arguments are what the call needs.
#[cfg(feature = "transparent")]
pub(crate) unsafe fn libc_syscall(number: libc::c_long, [a, b, c, d, e, f]: [usize; 6]) -> libc::c_long {
    // SAFETY: the caller's promise.
    unsafe { gort_libc_syscall(number, a, b, c, d, e, f) }
}

/// The address behind the system call instruction of `syscall`.
pub(crate) fn libc_syscall_end() -> usize {
    gort_libc_syscall_end as *const () as usize
}
