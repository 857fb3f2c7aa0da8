//! A memory barrier on all running threads of the process, paid by the caller alone.

use std::sync::atomic::{AtomicBool, Ordering};

use super::syscall::syscall6;

const PRIVATE_EXPEDITED: usize = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;

static AVAILABLE: AtomicBool = AtomicBool::new(false);

/// Whether [`all_threads`] does what it says. It never changes back.
#[inline(always)]
pub(crate) fn is_available() -> bool {
    AVAILABLE.load(Ordering::Relaxed)
}

/// Prepares the process for [`all_threads`], if the kernel can.
pub(crate) fn register() {
    // SAFETY: no memory is passed.
    let registered =
        unsafe { syscall6(libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0) } == 0;
    AVAILABLE.store(registered, Ordering::Release);
}

/// When it returns, every thread of the process has executed a full barrier since the call began. Does nothing if the barrier is
/// not available at the beginning of the call.
pub(crate) fn all_threads() {
    // SAFETY: no memory is passed.
    unsafe { syscall6(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0, 0, 0, 0) };
}
