//! System calls without libc: no errno, hence no thread-local storage.

use std::io;

/// What a raw call returned, as a result.
#[inline]
pub(crate) fn returned(result: isize) -> io::Result<usize> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(result as usize) }
}

/// Performs system call `number`. Returns what the kernel returned: negative errno values mean failure.
///
/// # Safety
/// As the system call itself.
#[cfg(target_arch = "x86_64")]
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
        std::arch::asm!(
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
