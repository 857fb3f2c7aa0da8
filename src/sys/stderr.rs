//! Writing to the standard error stream without its lock, which a goroutine may hold that waits for ever.

use super::syscall::syscall6;

/// Writes all of `text`, or as much as goes.
pub(crate) fn write(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: the bytes are initialised and outlive the call.
        let written = unsafe { syscall6(libc::SYS_write, 2, rest.as_ptr() as usize, rest.len(), 0, 0, 0) };
        match written {
            1.. => rest = &rest[written as usize..],
            _ if -written == libc::EINTR as isize || -written == libc::EAGAIN as isize => {}
            _ => return,
        }
    }
}
