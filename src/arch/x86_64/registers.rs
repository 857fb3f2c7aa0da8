//! The registers of code that stopped, for walks over its stack.

use std::arch::{asm, global_asm};
use std::ffi::c_void;

/// The registers of code that stopped: where it is, and what an unwinder needs to find its callers. The
/// assembly below relies on the order of the fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    pub(super) rip: usize,
    pub(super) rsp: usize,
    pub(super) rbx: usize,
    pub(super) rbp: usize,
    pub(super) r12: usize,
    pub(super) r13: usize,
    pub(super) r14: usize,
    pub(super) r15: usize,
}

impl Registers {
    /// The address of the next instruction.
    pub(crate) fn pc(&self) -> usize {
        self.rip
    }

    /// The stack pointer.
    pub(crate) fn sp(&self) -> usize {
        self.rsp
    }

    /// The registers by their numbers in unwind tables.
    pub(crate) fn numbered(&self) -> [(u16, usize); 8] {
        let Registers { rip, rsp, rbx, rbp, r12, r13, r14, r15 } = *self;
        [
            (RETURN_ADDRESS, rip),
            (STACK_POINTER, rsp),
            (3, rbx),
            (FRAME_POINTER, rbp),
            (12, r12),
            (13, r13),
            (14, r14),
            (15, r15),
        ]
    }
}

/// Numbers of registers in unwind tables. Where a function returns to is a register there, too.
pub(crate) const FRAME_POINTER: u16 = 6;
pub(crate) const STACK_POINTER: u16 = 7;
pub(crate) const RETURN_ADDRESS: u16 = 16;
/// Registers have smaller numbers.
pub(crate) const REGISTER_COUNT: usize = 17;

/// Whether a function leaves the register to its caller as it was.
pub(crate) fn is_callee_saved(register: u16) -> bool {
    matches!(register, 3 | FRAME_POINTER | 12..=15)
}

#[cfg(feature = "debug")]
impl Registers {
    /// The registers in eight words, which [`from_words`](Registers::from_words) takes.
    pub(crate) fn to_words(self) -> [usize; 8] {
        [self.rip, self.rsp, self.rbx, self.rbp, self.r12, self.r13, self.r14, self.r15]
    }

    pub(crate) fn from_words([rip, rsp, rbx, rbp, r12, r13, r14, r15]: [usize; 8]) -> Registers {
        Registers { rip, rsp, rbx, rbp, r12, r13, r14, r15 }
    }
}

/// The caller's own registers at this point. They describe its frame until it returns: its return address and
/// the registers that it saved for its callers stay where they are.
#[inline(always)]
pub(crate) fn own_registers() -> Registers {
    let mut registers = Registers::default();
    // SAFETY: writes the eight words of the struct.
    unsafe {
        asm!(
            "lea {scratch}, [rip]",
            "mov [{to}], {scratch}",
            "mov [{to} + 8], rsp",
            "mov [{to} + 16], rbx",
            "mov [{to} + 24], rbp",
            "mov [{to} + 32], r12",
            "mov [{to} + 40], r13",
            "mov [{to} + 48], r14",
            "mov [{to} + 56], r15",
            to = in(reg) &raw mut registers,
            scratch = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
    registers
}

// gort_unwind_from(registers, function, data): calls function(data). The unwind information, with rbx =
// registers: the caller's stack pointer (the CFA) is the word at rbx + 8; rip, rbx, rbp, r12 to r15 are saved
// at rbx + 0, 16, 24, 32, 40, 48, 56. It is marked as a signal frame, because rip is the address of an
// instruction, and not a return address behind a call.
global_asm!(
    ".balign 16",
    ".globl gort_unwind_from",
    ".hidden gort_unwind_from",
    ".type gort_unwind_from,@function",
    "gort_unwind_from:",
    ".cfi_startproc",
    ".cfi_signal_frame",
    "push rbx",
    "mov rbx, rdi",
    ".cfi_escape 0x0f, 3, 0x73, 8, 0x06", // DW_CFA_def_cfa_expression: breg3(rbx) + 8, deref
    ".cfi_escape 0x10, 16, 2, 0x73, 0",   // DW_CFA_expression: register 16 (rip) at breg3 + 0
    ".cfi_escape 0x10, 3, 2, 0x73, 16",
    ".cfi_escape 0x10, 6, 2, 0x73, 24",
    ".cfi_escape 0x10, 12, 2, 0x73, 32",
    ".cfi_escape 0x10, 13, 2, 0x73, 40",
    ".cfi_escape 0x10, 14, 2, 0x73, 48",
    ".cfi_escape 0x10, 15, 2, 0x73, 56",
    "mov rdi, rdx",
    "call rsi",
    "pop rbx",
    "ret",
    ".cfi_endproc",
    ".size gort_unwind_from, . - gort_unwind_from",
);

unsafe extern "C" {
    fn gort_unwind_from(registers: *const Registers, function: extern "C" fn(*mut c_void), data: *mut c_void);
}

/// Calls `function(data)` in a frame whose unwind information says that it was called from where `registers`
/// were taken.
///
/// # Safety
/// `data` is what `function` expects. The code that the registers belong to does not run while an unwinder
/// inside `function` reads its stack.
pub(crate) unsafe fn unwind_from(
    registers: &Registers,
    function: extern "C" fn(*mut c_void),
    data: *mut c_void,
) {
    // SAFETY: the caller's promise.
    unsafe { gort_unwind_from(registers, function, data) };
}
