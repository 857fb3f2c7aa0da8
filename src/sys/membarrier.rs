//! A memory barrier on all running threads of the process, paid by the caller alone.

use super::syscall::syscall6;

const PRIVATE_EXPEDITED: usize = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;

/// Prepares the process for [`all_threads`]. False if the kernel cannot.
pub(crate) fn register() -> bool {
    // SAFETY: no memory is passed.
    (unsafe { syscall6(libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0) }) == 0
}

/// When it returns, every thread of the process has executed a full barrier since the call began.
pub(crate) fn all_threads() {
    // SAFETY: no memory is passed.
    unsafe { syscall6(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0, 0, 0, 0) };
}
