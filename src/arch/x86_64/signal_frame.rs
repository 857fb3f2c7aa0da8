//! The registers that the kernel saved when a signal interrupted a thread: reading and changing them, and
//! stopping the interrupted code right there.
//!
//! A signal handler can make a suspended context of the code that it interrupted. It copies what the kernel
//! saved (`ucontext_t` and the vector state) to that code's own stack, below its red zone:
//!
//! ```text
//! | gort_resume | frame | resumed | .. | ucontext_t | .. | vector state | .. | red zone | interrupted code
//! ^ stack pointer                      ^ frame           ^ 64-aligned                   ^ its stack pointer
//! ```
//!
//! `gort_resume` calls `resumed`, makes the frame the top of the stack and calls `rt_sigreturn`, which
//! loads all registers from it, on whichever thread that happens.

use std::arch::global_asm;
use std::ffi::c_void;

use super::{RED_ZONE, Registers};

/// The registers that the kernel saved when a signal interrupted the thread. Valid until the handler returns.
#[derive(Clone, Copy)]
pub(crate) struct SignalFrame(*mut libc::ucontext_t);

impl SignalFrame {
    /// # Safety
    /// `context` is what the kernel passed to a handler that does not return while the result is used.
    pub(crate) unsafe fn new(context: *mut c_void) -> SignalFrame {
        SignalFrame(context.cast())
    }

    fn get(self, register: i32) -> i64 {
        // SAFETY: the promise of `new`.
        unsafe { (*self.0).uc_mcontext.gregs[register as usize] }
    }

    fn set(self, register: i32, value: i64) {
        // SAFETY: the promise of `new`.
        unsafe { (*self.0).uc_mcontext.gregs[register as usize] = value };
    }

    /// The registers of the interrupted code.
    pub(crate) fn registers(self) -> Registers {
        let get = |register| self.get(register) as usize;
        Registers {
            rip: get(libc::REG_RIP),
            rsp: get(libc::REG_RSP),
            rbx: get(libc::REG_RBX),
            rbp: get(libc::REG_RBP),
            r12: get(libc::REG_R12),
            r13: get(libc::REG_R13),
            r14: get(libc::REG_R14),
            r15: get(libc::REG_R15),
        }
    }

    /// Whether the signal made a system call fail with EINTR.
    pub(crate) fn failed_with_eintr(self) -> bool {
        self.get(libc::REG_RAX) == -i64::from(libc::EINTR)
    }

    /// The first four arguments of the system call that was interrupted.
    pub(crate) fn call_arguments(self) -> [usize; 4] {
        [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10]
            .map(|register| self.get(register) as usize)
    }

    /// Makes the interrupted code repeat the call `number` when the handler returns.
    pub(crate) fn restart_call(self, number: libc::c_long) {
        self.set(libc::REG_RAX, number);
        self.set(libc::REG_RIP, self.get(libc::REG_RIP) - SYSCALL.len() as i64);
    }
}

/// The head of an `XSAVE` area as the kernel leaves it in a signal frame: its size is in there.
const XSTATE_MAGIC: (usize, u32) = (464, 0x4650_5853);
const XSTATE_SIZE: usize = 468;
/// Where the set of the components that are in use lies, and the one (AMX tiles) for which the kernel gives
/// each thread room only when it first uses them. On a thread without the room, `rt_sigreturn` would load
/// neither the tiles nor the other vector registers.
const XSTATE_IN_USE: usize = 472;
const TILES: u64 = 1 << 18;
/// The size of the area if it has no such head (bytes).
const FXSAVE_SIZE: usize = 512;
/// The bytes of `ucontext_t` that the kernel writes and reads. (libc's type is larger.)
const KERNEL_UCONTEXT: usize = 304;

impl SignalFrame {
    /// Where the interrupted code is.
    pub(crate) fn pc(self) -> usize {
        self.get(libc::REG_RIP) as usize
    }

    /// The stack pointer of the interrupted code.
    pub(crate) fn sp(self) -> usize {
        self.get(libc::REG_RSP) as usize
    }

    /// The signals that the interrupted code had blocked; bit 0 is signal 1.
    pub(crate) fn blocked_signals(self) -> u64 {
        // SAFETY: the promise of `new`; the kernel fills in the first 64 bits of the set.
        unsafe { (&raw const (*self.0).uc_sigmask).cast::<u64>().read() }
    }

    /// The alternate signal stack of the thread: its start and its size.
    pub(crate) fn signal_stack(self) -> (usize, usize) {
        // SAFETY: the promise of `new`.
        let stack = unsafe { (*self.0).uc_stack };
        (stack.ss_sp as usize, stack.ss_size)
    }

    /// Gives the thread that goes on with this frame its alternate signal stack, if it has one.
    pub(crate) fn set_signal_stack(self, stack: Option<(usize, usize)>) {
        let stack = match stack {
            Some((start, size)) => libc::stack_t { ss_sp: start as *mut c_void, ss_flags: 0, ss_size: size },
            None => libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 },
        };
        // SAFETY: the promise of `new`.
        unsafe { (*self.0).uc_stack = stack };
    }

    /// Whether the interrupted code is in the last instructions of `gort_resume`, where the goroutine
    /// counts as running but the frame that it is resumed from is for this thread.
    pub(crate) fn is_being_resumed(self) -> bool {
        let last = gort_resume_last as *const () as usize..gort_resume_end as *const () as usize;
        last.contains(&self.pc())
    }

    /// Copies the frame to the stack of the interrupted code, and makes a suspended context of it: see the
    /// picture. `None`: there is no room above `limit`, or the registers cannot be loaded by every thread.
    ///
    /// # Safety
    /// The interrupted code runs on a stack that reaches down to `limit`, and this thread owns that stack.
    /// `resumed` does what [`Resumed`] says.
    pub(crate) unsafe fn save_on_stack(self, limit: usize, resumed: Resumed) -> Option<usize> {
        // SAFETY: the promise of `new`; the kernel passes the address of the vector state.
        let (vectors, size) = unsafe {
            let vectors = (*self.0).uc_mcontext.fpregs as usize;
            let has_head = vectors != 0 && *((vectors + XSTATE_MAGIC.0) as *const u32) == XSTATE_MAGIC.1;
            let size = if has_head { *((vectors + XSTATE_SIZE) as *const u32) as usize } else { FXSAVE_SIZE };
            if has_head && *((vectors + XSTATE_IN_USE) as *const u64) & TILES != 0 {
                return None;
            }
            (vectors, if vectors == 0 { 0 } else { size })
        };
        let vectors_copy = self.sp().checked_sub(RED_ZONE + size)? & !63;
        let frame = vectors_copy.checked_sub(KERNEL_UCONTEXT)? & !15;
        // `gort_resume` calls a function after three pops: then rsp has to be a multiple of 16.
        let context = frame - 40;
        if context < limit {
            return None;
        }
        // SAFETY: the caller owns the stack, which has room; nothing below the red zone is in use.
        unsafe {
            std::ptr::copy_nonoverlapping(vectors as *const u8, vectors_copy as *mut u8, size);
            std::ptr::copy_nonoverlapping(self.0.cast::<u8>(), frame as *mut u8, KERNEL_UCONTEXT);
            if vectors != 0 {
                (*(frame as *mut libc::ucontext_t)).uc_mcontext.fpregs = vectors_copy as *mut _;
            }
            (context as *mut [usize; 3]).write([
                gort_resume as *const () as usize,
                frame,
                resumed as *const () as usize,
            ]);
        }
        Some(context)
    }
}

/// Called on the stack of an interrupted goroutine when it is resumed, with the message of the context that
/// ran before and the copied frame. Returns the address of a byte that `gort_resume` clears with its last
/// instructions, when the goroutine leaves the runtime.
pub(crate) type Resumed = unsafe extern "C" fn(usize, usize, *mut c_void) -> *mut u8;

// The code behind a context of `save_on_stack`. The unwind information, with rbx = the frame: the
// interrupted stack pointer (the CFA) is the word at rbx + 160; rip, rbx, rbp, r12 to r15 are at rbx + 168,
// 128, 120, 72, 80, 88, 96 (`mcontext_t`).
global_asm!(
    ".balign 16",
    ".globl gort_resume",
    ".hidden gort_resume",
    ".type gort_resume,@function",
    "gort_resume:",
    ".cfi_startproc",
    ".cfi_signal_frame",
    "pop rbx",
    "pop rax",
    ".cfi_escape 0x0f, 4, 0x73, 0xa0, 0x01, 0x06", // DW_CFA_def_cfa_expression: breg3(rbx) + 160, deref
    ".cfi_escape 0x10, 16, 3, 0x73, 0xa8, 0x01",   // DW_CFA_expression: register 16 (rip) at breg3 + 168
    ".cfi_escape 0x10, 3, 3, 0x73, 0x80, 0x01",
    ".cfi_escape 0x10, 6, 3, 0x73, 0xf8, 0x00",
    ".cfi_escape 0x10, 12, 3, 0x73, 0xc8, 0x00",
    ".cfi_escape 0x10, 13, 3, 0x73, 0xd0, 0x00",
    ".cfi_escape 0x10, 14, 3, 0x73, 0xd8, 0x00",
    ".cfi_escape 0x10, 15, 3, 0x73, 0xe0, 0x00",
    // rsi and rdx hold the message.
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rbx",
    "call rax",
    ".hidden gort_resume_last",
    ".globl gort_resume_last",
    "gort_resume_last:",
    "mov rsp, rbx",
    "mov byte ptr [rax], 0",
    "mov eax, {rt_sigreturn}",
    "syscall",
    ".hidden gort_resume_end",
    ".globl gort_resume_end",
    "gort_resume_end:",
    "ud2",
    ".cfi_endproc",
    ".size gort_resume, . - gort_resume",
    rt_sigreturn = const libc::SYS_rt_sigreturn,
);

unsafe extern "C" {
    pub(super) fn gort_resume();
    pub(super) fn gort_resume_last();
    fn gort_resume_end();
}

/// The `syscall` instruction.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// The number of the system call made by the code that ends at `address`, if that code is
/// `mov eax, number; syscall`, or `xor eax, eax; syscall` for number 0. Between the two, arguments may be
/// loaded from the stack: `mov edi, [rsp + 8]`.
///
/// # Safety
/// The bytes directly before `address` are mapped code.
pub(crate) unsafe fn call_before(address: usize) -> Option<libc::c_long> {
    /// The smallest page: the bytes that are read must lie on the same one as the instruction.
    const PAGE: usize = 4096;
    /// An instruction that sets the number, as many loads as in `recvfrom` and one more, and `syscall`.
    const MOST: usize = 5 + 3 * 5 + SYSCALL.len();
    let length = MOST.min(address % PAGE);
    // SAFETY: these bytes lie on the same page as the code that the caller vouches for.
    let code = unsafe { std::slice::from_raw_parts((address - length) as *const u8, length) };
    number_at_end(code.strip_suffix(&SYSCALL)?)
}

/// The number that the code leaves in eax.
fn number_at_end(mut code: &[u8]) -> Option<libc::c_long> {
    const MOV_EAX: u8 = 0xb8;
    const CLEAR_EAX: [u8; 2] = [0x31, 0xc0];
    loop {
        if let Some(&[MOV_EAX, a, b, c, d]) = code.last_chunk() {
            return Some(libc::c_long::from(u32::from_le_bytes([a, b, c, d])));
        }
        if code.ends_with(&CLEAR_EAX) {
            return Some(0);
        }
        code = &code[..code.len() - load_at_end(code)?];
    }
}

/// The length of the instruction at the end of `code` if it loads a register other than rax from the stack.
fn load_at_end(code: &[u8]) -> Option<usize> {
    const LOAD: u8 = 0x8b;
    /// The address is in rsp.
    const STACK: u8 = 0x24;
    // Without and with a displacement of a byte.
    let (operand, length) = match *code {
        [.., LOAD, operand, STACK] if operand >> 6 == 0 => (operand, 3),
        [.., LOAD, operand, STACK, _] if operand >> 6 == 1 => (operand, 4),
        _ => return None,
    };
    // A prefix says that a register has 64 bits (8), or is r8 to r15 (4).
    let prefix = code.iter().rev().nth(length).filter(|&&byte| byte & !0xc == 0x40 && byte != 0x40);
    let register = operand >> 3 & 7;
    let is_rax = register == 0 && prefix.is_none_or(|prefix| prefix & 4 == 0);
    (operand & 7 == 4 && !is_rax).then_some(length + usize::from(prefix.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_before_loads_of_arguments() {
        let ends: [(&[u8], Option<libc::c_long>); 9] = [
            (&[0xb8, 0x07, 0, 0, 0], Some(7)),
            (&[0x31, 0xc0], Some(0)),
            (&[0x90, 0xb8, 0xb9, 0x01, 0, 0, 0x8b, 0x7c, 0x24, 0x08], Some(441)), // mov edi, [rsp + 8]
            // mov rdx, [rsp + 16]; mov rsi, [rsp + 8]
            (&[0xb8, 0x2d, 0, 0, 0, 0x48, 0x8b, 0x54, 0x24, 0x10, 0x48, 0x8b, 0x74, 0x24, 0x08], Some(45)),
            (&[0xb8, 0x2d, 0, 0, 0, 0x8b, 0x3c, 0x24], Some(45)), // mov edi, [rsp]
            (&[0x31, 0xc0, 0x4c, 0x8b, 0x44, 0x24, 0x18], Some(0)), // mov r8, [rsp + 24]
            (&[0xb8, 0x2d, 0, 0, 0, 0x8b, 0x44, 0x24, 0x08], None), // mov eax, [rsp + 8]
            (&[0xb8, 0x2d, 0, 0, 0, 0x90], None),
            (&[0x24, 0x08], None),
        ];
        for (code, number) in ends {
            assert_eq!(number_at_end(code), number, "{code:02x?}");
        }
    }
}
