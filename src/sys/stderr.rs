//! Writing to the standard error stream without its lock, which a goroutine may hold that waits for ever.

use std::fmt;

use super::syscall::syscall6;

const MILLIS: usize = 1_000;

/// Writes all of `text`, or as much as goes: false if that is not all. Unlike `eprintln!` it does not panic then.
pub(crate) fn write(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: the bytes are initialised and outlive the call.
        let written = unsafe { syscall6(libc::SYS_write, 2, rest.as_ptr() as usize, rest.len(), 0, 0, 0) };
        match written {
            1.. => rest = &rest[written as usize..],
            _ if -written == libc::EINTR as isize => {}
            // A terminal that somebody set to O_NONBLOCK, say. If nobody reads there, this may be lost.
            _ if -written == libc::EAGAIN as isize && becomes_writable() => {}
            _ => return false,
        }
    }
    true
}

/// Passes on what is formatted in pieces: a long report is seen as it is made, and never in memory as a whole.
/// When one does not go, the rest is not tried.
pub(crate) struct Pieces {
    collected: String,
    goes: bool,
}

const PIECE: usize = 16 << 10;

impl Pieces {
    pub(crate) fn new() -> Pieces {
        Pieces { collected: String::with_capacity(PIECE), goes: true }
    }
}

impl fmt::Write for Pieces {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.collected.push_str(text);
        if self.goes && self.collected.len() >= PIECE {
            self.goes = write(&self.collected);
            self.collected.clear();
        }
        if self.goes { Ok(()) } else { Err(fmt::Error) }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if self.goes {
            write(&self.collected);
        }
    }
}

fn becomes_writable() -> bool {
    let mut entry = libc::pollfd { fd: 2, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry.
    unsafe { syscall6(libc::SYS_poll, &raw mut entry as usize, 1, MILLIS, 0, 0, 0) != 0 }
}
