//! Switching stacks.
//!
//! A suspended context is one number: its stack pointer. On top of its stack lies the address where it
//! continues, and next to that the values that the code there pops.
//!
//! ```text
//! suspended:   | rbp | rbx | address |          new:   | end | main | argument | first_frame |
//!                            ^ stack pointer                                     ^ stack pointer
//! ```
//!
//! `switch` saves only rbx and rbp, which inline assembly cannot name as clobbered. The compiler saves the
//! other registers that it needs, at the place where `switch` is inlined.
//!
//! `switch` jumps; it neither calls nor returns. The CPU predicts a `ret` from the `call`s that it has seen.
//! A switch by call and return (as in the corosensei crate) pairs them wrongly unless the suspended function
//! itself resumes: two mispredictions in each switch, 8 of the 33 ns of a yield. With jumps the CPU's return
//! stack stays that of the code that switched out, which is right whenever the next goroutine stopped at the
//! same depth of the same code.
//!
//! A backtrace ends at `gort_first_frame`: its unwind information says that there is no caller. `end` is an
//! address in it, where `main` finds its return address, as if `gort_first_frame` had called it. It is the
//! last address, because unwinders look at the instruction before a return address. An address of 0 would end
//! a backtrace, too, but gdb and perf would show it as a frame.

use std::arch::{asm, global_asm};
use std::ffi::c_void;
use std::ptr;

use super::registers::Registers;
use super::signal_frame::{SignalFrame, gort_resume, gort_resume_last};

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
    // The stack holds `gort_first_frame_end` as the return address now, and is aligned as after a call.
    "jmp rax",
    "int3",
    ".globl gort_first_frame_end",
    ".hidden gort_first_frame_end",
    "gort_first_frame_end:",
    "int3",
    ".cfi_endproc",
    ".size gort_first_frame, . - gort_first_frame",
);

unsafe extern "C" {
    fn gort_first_frame();
    fn gort_first_frame_end();
}

/// What a debugger needs to know about suspended contexts (`diag/gdb/`): the addresses by which it recognizes
/// the two special ones, addresses at which their unwind information holds, and offsets of saved registers.
pub(crate) const FOR_DEBUGGERS: [(&str, *const ()); 7] = [
    ("first frame", gort_first_frame as *const ()),
    ("first frame end", gort_first_frame_end as *const ()),
    ("resume", gort_resume as *const ()),
    ("resume last", gort_resume_last as *const ()),
    ("context.rbx", ptr::without_provenance(8)),
    ("context.rbp", ptr::without_provenance(16)),
    ("context bytes", ptr::without_provenance(24)),
];

/// What a suspended context is, and where its registers are.
pub(crate) enum Suspended {
    /// It never ran.
    New,
    /// A signal interrupted it. This is the address of what the kernel passed to the handler.
    Interrupted(usize),
    /// It called `switch`.
    Switched(Registers),
}

/// Words on top of a suspended stack, which say what it is.
pub(crate) const TOP: usize = 3;

/// What the context `saved` is. `top`: the words at that address.
pub(crate) fn suspended(saved: usize, [rip, rbx, rbp]: [usize; TOP]) -> Suspended {
    if rip == gort_first_frame as *const () as usize {
        Suspended::New
    } else if rip == gort_resume as *const () as usize {
        // `save_on_stack` put the address of the copied frame there.
        Suspended::Interrupted(rbx)
    } else {
        Suspended::Switched(Registers {
            rip,
            rsp: saved + TOP * size_of::<usize>(),
            rbx,
            rbp,
            ..Registers::default()
        })
    }
}

/// The registers of a suspended context; `None` if it never ran.
///
/// # Safety
/// `saved` was returned by `prepare` or `save_on_stack` or saved by `switch`, and nobody resumes it
/// meanwhile.
pub(crate) unsafe fn saved_registers(saved: usize) -> Option<Registers> {
    // SAFETY: the caller's promise; see the pictures.
    match suspended(saved, unsafe { *(saved as *const [usize; TOP]) }) {
        Suspended::New => None,
        // SAFETY: the caller's promise.
        Suspended::Interrupted(frame) => Some(unsafe { SignalFrame::new(frame as *mut c_void) }.registers()),
        Suspended::Switched(registers) => Some(registers),
    }
}

/// The first function of a new context. It gets the argument of `prepare`, and the message of the first
/// switch to it.
pub(crate) type Main = unsafe extern "C" fn(usize, usize, usize) -> !;

/// Prepares a stack so that the first switch to it calls `main`. Returns its stack pointer.
///
/// # Safety
/// `top` is 16-aligned, and the memory below it is a stack that nobody uses. `main` never returns.
pub(crate) unsafe fn prepare(top: usize, main: Main, argument: usize) -> usize {
    debug_assert_eq!(top % 16, 0);
    // After the two pops rsp is top - 8: 8 below a multiple of 16, as at a function's entry.
    let frame = (top - 32) as *mut [usize; 4];
    // SAFETY: the caller's promise.
    unsafe {
        frame.write([
            gort_first_frame as *const () as usize,
            argument,
            main as usize,
            gort_first_frame_end as *const () as usize,
        ]);
    }
    frame as usize
}

/// What a context tells the next one. It is passed in registers: through memory it would arrive some 30
/// cycles later, more than the rest of a switch takes.
pub(crate) type Message = [usize; 2];

/// Saves the running context's stack pointer to `save` and resumes the context `to`, which gets the message.
/// Returns when another context switches back, with the message of that one.
///
/// # Safety
/// `to` was returned by `prepare` or saved by `switch`, and nobody else resumes it. `save` may be written;
/// that happens before the other context runs.
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

/// Resumes the context `to`, which gets the message. The running context is not saved: it never goes on.
///
/// # Safety
/// As for [`switch`]. Nothing on the running stack is needed any more.
pub(crate) unsafe fn jump(to: usize, message: Message) -> ! {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "mov rsp, rcx",
            "pop rax",
            "jmp rax",
            in("rcx") to,
            in("rsi") message[0],
            in("rdx") message[1],
            options(noreturn),
        )
    }
}
