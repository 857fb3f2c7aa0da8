//! Switching stacks.
//!
//! A context that does not run is one number: its stack pointer. On top of that stack lies the address where it goes
//! on, below that what the code there pops first.
//!
//! ```text
//! suspended:   | rbp | rbx | address |          new:   | 0 | main | argument | first_frame |
//!                            ^ stack pointer                                   ^ stack pointer
//! ```
//!
//! `switch` saves only rbx and rbp, which inline assembly cannot name as clobbered; the compiler saves whatever else it
//! needs, at the one place where it is used.
//!
//! It jumps, and neither calls nor returns. The CPU predicts a `ret` by the `call`s that it saw. A switch by call and
//! return (as the corosensei crate does it) pairs them wrongly unless the suspended function itself resumes: measured
//! here, two mispredictions in each switch, 8 of 33 ns of a yield. With jumps the return stack stays that of the code that
//! switched out, which is right whenever the next goroutine stopped at the same depth of the same code.
//!
//! A backtrace ends at `first_frame`: its unwind information says that there is no caller.

use std::arch::{asm, global_asm};

use super::unwind::Registers;

global_asm!(
    ".balign 16",
    ".globl gort_first_frame",
    ".hidden gort_first_frame",
    ".type gort_first_frame,@function",
    "gort_first_frame:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    // rsi and rdx hold the message.
    "pop rdi",
    "pop rax",
    "xor ebp, ebp",
    // The stack holds 0 as the return address now, and is aligned as after a call.
    "jmp rax",
    "int3",
    ".cfi_endproc",
    ".size gort_first_frame, . - gort_first_frame",
);

unsafe extern "C" {
    fn gort_first_frame();
}

/// Where a context that does not run will go on; `None` if it never ran.
///
/// # Safety
/// `saved` was prepared or saved, and nobody goes on with it meanwhile.
pub(crate) unsafe fn registers(saved: usize) -> Option<Registers> {
    // SAFETY: the caller's promise; see the picture.
    let [rip, rbx, rbp] = unsafe { *(saved as *const [usize; 3]) };
    let rsp = saved + 24;
    (rip != gort_first_frame as *const () as usize).then(|| Registers {
        rip,
        rsp,
        rbx,
        rbp,
        ..Registers::default()
    })
}

/// What a new context calls: the argument that was prepared, and the message of the first switch to it.
pub(crate) type Main = unsafe extern "C" fn(usize, usize, usize) -> !;

/// Prepares a stack so that the first switch to it calls `main`. Returns its stack pointer.
///
/// # Safety
/// `top` is 16-aligned, and the memory below it is a stack that nobody uses. `main` never returns.
pub(crate) unsafe fn prepare(top: usize, main: Main, argument: usize) -> usize {
    debug_assert_eq!(top % 16, 0);
    // After the two pops rsp is top - 8: 8 below a multiple of 16, as at a function's entry.
    let place = (top - 32) as *mut [usize; 4];
    // SAFETY: the caller's promise.
    unsafe { place.write([gort_first_frame as *const () as usize, argument, main as usize, 0]) };
    place as usize
}

/// What a context tells the one that it switches to, in registers: through memory it would arrive some 30 cycles later,
/// more than all else that a switch does.
pub(crate) type Message = [usize; 2];

/// Saves the running context's stack pointer to `save` and goes on with the context `to`, which gets the message. Returns
/// when somebody switches back, with that one's message.
///
/// # Safety
/// `to` was prepared or saved, and nobody else goes on with it. `save` is written before anything of the other context
/// runs.
#[inline(always)]
#[must_use]
pub(crate) unsafe fn switch(save: *mut usize, to: usize, message: Message) -> Message {
    let [mut first, mut second] = message;
    // SAFETY: the caller's promise; all registers are declared clobbered or saved.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov rsp, rcx",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            inout("rdi") save => _,
            inout("rcx") to => _,
            inout("rsi") first,
            inout("rdx") second,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
    [first, second]
}
