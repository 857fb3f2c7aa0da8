//! Telling Valgrind about stacks: a sequence of instructions that it recognises and that does nothing otherwise.

const STACK_REGISTER: usize = 0x1501;

/// Declares `[start, end)` to be a stack.
pub(crate) fn register_stack(start: usize, end: usize) {
    let request = [STACK_REGISTER, start, end, 0, 0, 0];
    // SAFETY: four rotations by 128 bits in all and an exchange with itself change nothing; under Valgrind the request is
    // read and rdx gets the answer.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            inout("rdx") 0usize => _,
            in("rax") request.as_ptr(),
            options(nostack),
        );
    }
}
