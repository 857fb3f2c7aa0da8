//! Writes to standard error without std's lock, because a goroutine that waits forever may hold that lock.

use std::{fmt, io};

use super::syscall::syscall6;

/// How long a write waits for a full pipe or terminal to accept bytes again, in milliseconds.
const MILLIS: usize = 1_000;

/// Writes as much of `text` as possible. Returns false if that is not all of it; unlike `eprintln!`, it never
/// panics.
pub(crate) fn write(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: the bytes are initialised and outlive the call.
        let written = unsafe { syscall6(libc::SYS_write, 2, rest.as_ptr() as usize, rest.len(), 0, 0, 0) };
        match written {
            1.. => rest = &rest[written as usize..],
            _ if -written == libc::EINTR as isize => {}
            // The stream is O_NONBLOCK (a terminal that another process set so, say) and full. If it stays
            // full, the rest is lost.
            _ if -written == libc::EAGAIN as isize && becomes_writable() => {}
            _ => return false,
        }
    }
    true
}

/// Writes a short message, without allocating; what is longer than 512 bytes is cut off.
pub(crate) fn write_short(message: fmt::Arguments<'_>) {
    let mut text = [0u8; 512];
    let mut rest = &mut text[..];
    let _cut_off = io::Write::write_fmt(&mut rest, message);
    let unused = rest.len();
    let used = text.len() - unused;
    write(str::from_utf8(&text[..used]).unwrap_or("gort: a message that could not be written\n"));
}

/// Writes formatted text to standard error in pieces of about [`PIECE`] bytes. So a long report appears while
/// it is made, and never exists in memory as a whole. After a write that fails, the rest is discarded.
pub(crate) struct Pieces {
    collected: String,
    goes: bool,
}

/// How many bytes are collected before they are written.
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

/// Waits up to [`MILLIS`] for standard error to accept bytes.
fn becomes_writable() -> bool {
    let mut entry = libc::pollfd { fd: 2, events: libc::POLLOUT, revents: 0 };
    // SAFETY: the count of 1 matches the single entry.
    unsafe { syscall6(libc::SYS_poll, &raw mut entry as usize, 1, MILLIS, 0, 0, 0) != 0 }
}
