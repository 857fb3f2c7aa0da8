//! `vfork`, which libc has to define in assembly, too: the child returns first, and its stack frames
//! overwrite those of the parent, so the return address waits in a register.
//!
//! The child may only call `execve` and `_exit`, but programs also close and duplicate descriptors there. It
//! shares all memory with the parent, which is stopped, so what the child would do to gort's state it would
//! do to the parent's. This definition, which the linker prefers to libc's, counts such children, so that
//! gort knows when it has to ask which process calls.

use std::arch::global_asm;
use std::sync::atomic::AtomicU32;

/// How many children of `vfork` share the memory of this process.
pub(crate) static VFORKS: AtomicU32 = AtomicU32::new(0);

global_asm!(
    ".balign 16",
    ".globl vfork",
    ".type vfork,@function",
    "vfork:",
    ".cfi_startproc",
    "lock inc dword ptr [rip + {vforks}]",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    ".cfi_register rip, rdi",
    "mov eax, {number}",
    "syscall",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset rip, 0",
    "test eax, eax",
    "jz 3f",
    // The parent: the child has another memory now, or has ended.
    "lock dec dword ptr [rip + {vforks}]",
    "cmp rax, -4095",
    "jb 3f",
    // errno = -rax; return -1
    "push rbx",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset rbx, 0",
    "mov ebx, eax",
    "neg ebx",
    "call [rip + __errno_location@GOTPCREL]",
    "mov [rax], ebx",
    "mov eax, -1",
    "pop rbx",
    ".cfi_adjust_cfa_offset -8",
    ".cfi_restore rbx",
    "3:",
    "ret",
    ".cfi_endproc",
    ".size vfork, . - vfork",
    vforks = sym VFORKS,
    number = const libc::SYS_vfork,
);

unsafe extern "C" {
    fn vfork() -> i32;
}

/// The address of this definition.
pub(crate) fn vfork_address() -> usize {
    vfork as *const () as usize
}
