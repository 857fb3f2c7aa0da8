//! Futexes: a thread waits on a word of memory until another one wakes it. These are raw system calls, which
//! do not touch errno, so they may run on a borrowed thread pointer and inside signal handlers.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Blocks the thread while `word` holds `expected`, until a wake-up or for at most `timeout`. It may return
/// early for any reason, so callers check the word again.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let spec = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs().min(i64::MAX as u64 / 2) as i64,
        tv_nsec: t.subsec_nanos().into(),
    });
    let spec_ptr = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the timespec outlive the call; FUTEX_WAIT only reads them.
    unsafe {
        super::syscall::syscall6(
            libc::SYS_futex,
            word.as_ptr() as usize,
            (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize,
            expected as usize,
            spec_ptr as usize,
            0,
            0,
        );
    }
}

/// Wakes at most `count` waiters of `word`. Only the address is used, so the word may already be freed.
pub(crate) fn wake(word: *const AtomicU32, count: u32) {
    // SAFETY: FUTEX_WAKE does not access the memory.
    unsafe {
        super::syscall::syscall6(
            libc::SYS_futex,
            word as usize,
            (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize,
            count as usize,
            0,
            0,
            0,
        );
    }
}
