//! The `membarrier` system call: the caller makes all running threads of the process execute a memory
//! barrier, so that their code needs none of its own.

use std::sync::atomic::{AtomicBool, Ordering};

use super::syscall::syscall6;

const PRIVATE_EXPEDITED: usize = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;

/// Set by [`register`] if the kernel supports the barrier.
static AVAILABLE: AtomicBool = AtomicBool::new(false);

/// Whether [`all_threads`] works. Once true, it stays true.
#[inline(always)]
pub(crate) fn is_available() -> bool {
    AVAILABLE.load(Ordering::Relaxed)
}

/// Prepares the process for [`all_threads`], if the kernel supports it.
pub(crate) fn register() {
    // SAFETY: no memory is passed.
    let registered =
        unsafe { syscall6(libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0) } == 0;
    AVAILABLE.store(registered, Ordering::Release);
}

/// Returns when every thread of the process has executed a full barrier since the call began. Does nothing if
/// the barrier is not available when the call begins.
pub(crate) fn all_threads() {
    // SAFETY: no memory is passed.
    unsafe { syscall6(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0, 0, 0, 0) };
}
