//! The terminal without line mode: one key at a time, without echo, on a screen of its own. The drop restores
//! it.

use std::io::{self, Write};
use std::time::Instant;

pub(super) struct Keys {
    before: libc::termios,
}

impl Keys {
    pub(super) fn new() -> io::Result<Keys> {
        // SAFETY: the struct is plain numbers, for which zeros are valid.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes only to the struct.
        if unsafe { libc::tcgetattr(0, &raw mut before) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut raw = before;
        // Ctrl-C comes as a key, so that the terminal is restored.
        raw.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ISIG);
        // SAFETY: the struct is that of the terminal, changed.
        if unsafe { libc::tcsetattr(0, libc::TCSANOW, &raw const raw) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let keys = Keys { before };
        // Another screen, without a cursor.
        print(b"\x1b[?1049h\x1b[?25l")?;
        Ok(keys)
    }

    /// The next key. `None`: there was none until then.
    pub(super) fn wait(&mut self, until: Instant) -> io::Result<Option<u8>> {
        let mut fd = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
        let left = until.saturating_duration_since(Instant::now()).as_millis();
        // SAFETY: one descriptor, which the kernel writes to.
        let ready = unsafe { libc::poll(&raw mut fd, 1, i32::try_from(left).unwrap_or(i32::MAX)) };
        if ready <= 0 {
            return Ok(None); // a signal, such as a change of the size, counts as a time-out
        }
        let mut key = 0u8;
        // SAFETY: one byte of a local variable.
        match unsafe { libc::read(0, (&raw mut key).cast(), 1) } {
            1 => Ok(Some(key)),
            0 => Ok(Some(b'q')),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _terminal_is_gone = print(b"\x1b[?25h\x1b[?1049l");
        // SAFETY: the struct is what the terminal had.
        unsafe { libc::tcsetattr(0, libc::TCSANOW, &raw const self.before) };
    }
}

fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
