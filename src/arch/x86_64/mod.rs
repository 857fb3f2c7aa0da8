//! x86-64, System V ABI: switching stacks, the thread pointer, registers for unwinding, system calls. What a
//! signal interrupted is in `signal_frame.rs`.
//!
//! # Switching stacks
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

mod call_instruction;
mod libc_syscall;
mod signal_frame;
#[cfg(feature = "transparent")]
mod vfork;

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::arch::{asm, global_asm};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

pub(crate) use self::call_instruction::{Call, call_at_end};
#[cfg(feature = "transparent")]
pub(crate) use self::libc_syscall::libc_syscall;
pub(crate) use self::libc_syscall::{LIBC_SYSCALL_NUMBER, libc_syscall_end};
pub(crate) use self::signal_frame::{SignalFrame, call_before};
use self::signal_frame::{gort_resume, gort_resume_last};
#[cfg(feature = "transparent")]
pub(crate) use self::vfork::{VFORKS, vfork_address};

/// A function may use this many bytes below its stack pointer without reserving them (psABI).
pub(crate) const RED_ZONE: usize = 128;

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

/// The registers of code that stopped: where it is, and what an unwinder needs to find its callers. The
/// assembly below relies on the order of the fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    rip: usize,
    rsp: usize,
    rbx: usize,
    rbp: usize,
    r12: usize,
    r13: usize,
    r14: usize,
    r15: usize,
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

/// The caller's stack pointer.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let stack: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) stack, options(pure, nomem, nostack, preserves_flags)) };
    stack
}

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
