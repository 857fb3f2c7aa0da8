//! Walking the frames of a stack that does not run.
//!
//! The system's unwinder walks from its caller outwards, by the unwind tables that every function has.
//! `gort_unwind_from` is a caller whose table entry lies: it says that it was called from wherever a given set of registers
//! was, with the registers as they were there. So the unwinder, which runs on its own thread's stack, walks over into the
//! stopped code, and only reads that stack. Nothing is allocated and, with glibc 2.35 and GCC 12 or newer, no lock is
//! taken: code may be looked at that was stopped anywhere.
//!
//! An address that an interrupted or hand-written function computes its frame from may be wrong for a moment. The walk ends
//! as soon as a frame is not within the stack, or not above the last one, before anything there is read.
//!
//! Rejected: to run a function on the stopped stack that captures its own backtrace (it has to leave room for red zones
//! and for what the trimmer gave back); frame pointers (Rust's own library is built without).

use std::arch::{asm, global_asm};
use std::ffi::c_void;
use std::ops::Range;

/// As many frames of a goroutine are reported.
pub(crate) const MAX_FRAMES: usize = 64;

/// Where code stopped, and what it needs to find its callers. The order is known to the assembly.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) rip: usize,
    pub(crate) rsp: usize,
    pub(crate) rbx: usize,
    pub(crate) rbp: usize,
    pub(crate) r12: usize,
    pub(crate) r13: usize,
    pub(crate) r14: usize,
    pub(crate) r15: usize,
}

// gort_unwind_from(registers, function, data): calls function(data). The unwind information, with rbx = registers:
//   the caller's stack pointer (the CFA) is the word at rbx + 8;
//   rip, rbx, rbp, r12 to r15 are saved at rbx + 0, 16, 24, 32, 40, 48, 56.
// It is marked as a signal frame: the caller's address is that of an instruction, not one behind a call.
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
    fn _Unwind_Backtrace(step: extern "C" fn(*mut c_void, *mut c_void) -> i32, data: *mut c_void) -> i32;
    fn _Unwind_GetIPInfo(context: *mut c_void, before: *mut i32) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// The caller's own registers, right here. They describe its frame as long as it has not returned: what it saved of its
/// callers' registers, and its return address, stay where they are.
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

/// Code addresses, the innermost first: of the call instructions, for frames that called.
#[derive(Clone, Copy)]
pub(crate) struct Frames {
    addresses: [usize; MAX_FRAMES],
    len: usize,
}

impl Frames {
    pub(crate) const fn new() -> Frames {
        Frames { addresses: [0; MAX_FRAMES], len: 0 }
    }

    pub(crate) fn as_slice(&self) -> &[usize] {
        &self.addresses[..self.len]
    }
}

struct Walk<'a> {
    /// Where the stopped code is, until the walk has come there.
    start: Option<(usize, usize)>,
    stack: Range<usize>,
    frames: &'a mut Frames,
}

/// The frames of code that stopped with these registers. Nothing outside of `stack` is looked at.
///
/// # Safety
/// The code does not run on meanwhile, and `stack` is readable.
pub(crate) unsafe fn stopped(registers: &Registers, stack: Range<usize>, frames: &mut Frames) {
    frames.len = 0;
    if !stack.contains(&registers.rsp) {
        return;
    }
    let mut walk = Walk { start: Some((registers.rip, registers.rsp)), stack, frames };
    // SAFETY: the walk outlives the call; `registers` is valid; the rest is the caller's promise.
    unsafe { gort_unwind_from(registers, begin, (&raw mut walk).cast()) };
}

/// The frames of the caller, which runs on `stack`.
#[inline(never)]
pub(crate) fn here(stack: Range<usize>, frames: &mut Frames) {
    frames.len = 0;
    let mut walk = Walk { start: None, stack, frames };
    begin((&raw mut walk).cast());
}

extern "C" fn begin(walk: *mut c_void) {
    // SAFETY: `step` has the right type and gets our Walk.
    unsafe { _Unwind_Backtrace(step, walk) };
}

/// Called for every frame.
extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> i32 {
    const GO_ON: i32 = 0;
    const STOP: i32 = 5;
    // SAFETY: the unwinder passes its context, and the Walk that `begin` passed.
    let (walk, address, before, stack_pointer) = unsafe {
        let mut before = 0;
        let address = _Unwind_GetIPInfo(context, &mut before);
        (&mut *walk.cast::<Walk<'_>>(), address, before != 0, _Unwind_GetCFA(context))
    };
    if let Some(start) = walk.start {
        if start != (address, stack_pointer) {
            return GO_ON; // still our own frames
        }
        walk.start = None;
    }
    if !walk.stack.contains(&stack_pointer) || address == 0 || walk.frames.len == MAX_FRAMES {
        return STOP;
    }
    // The next frame has to be above this one.
    walk.stack.start = stack_pointer + 1;
    walk.frames.addresses[walk.frames.len] = address - usize::from(!before);
    walk.frames.len += 1;
    GO_ON
}
