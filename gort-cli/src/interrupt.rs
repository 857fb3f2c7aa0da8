//! Turns Ctrl-C (SIGINT) and SIGTERM into the cancellation of a context.
//!
//! A signal handler may do little; this one writes a byte into a pipe. A goroutine reads the pipe and cancels
//! the context. A second signal ends the process at once, after the handler has shown the cursor again.

use std::io::{self, PipeReader, Read};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use gort::context::{Cancel, Context};
use gort::io::Pollable;

/// The write end of the pipe. It is never closed.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Whether a signal has arrived already.
static ASKED: AtomicBool = AtomicBool::new(false);

/// A file descriptor on which the cursor is hidden, or -1.
static HIDDEN_ON: AtomicI32 = AtomicI32::new(-1);

/// Shows the cursor and resets colours, on a line of its own.
pub(crate) const SHOW_CURSOR: &[u8] = b"\x1b[0m\x1b[?25h\n";

/// Records that the cursor is hidden on this descriptor, so that the handler shows it again if it ends the
/// process. `None`: the cursor is visible.
pub(crate) fn cursor_is_hidden_on(fd: Option<i32>) {
    HIDDEN_ON.store(fd.unwrap_or(-1), Ordering::Relaxed);
}

/// A context that ends with the first SIGINT or SIGTERM. Must be called only once.
pub(crate) fn context() -> io::Result<(Context, Cancel)> {
    let (reader, writer) = io::pipe()?;
    PIPE.store(writer.into_raw_fd(), Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        install(signal)?;
    }
    let (ctx, cancel) = Context::background().with_cancel();
    let canceler = cancel.clone();
    gort::Builder::new().name("interrupt".into()).spawn(move || {
        let pipe = Pollable::new(reader);
        if pipe.read_with(|mut pipe: &PipeReader| pipe.read(&mut [0])).is_ok() {
            canceler.cancel_with(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
        }
    })?;
    Ok((ctx, cancel))
}

fn install(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: the struct is plain data, for which zeros are valid: an empty mask and no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // On the alternate stack, because goroutines' stacks are small.
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler does only what a signal handler may do: it uses atomics, `write` and `_exit`.
    match unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_signal(signal: libc::c_int) {
    if ASKED.swap(true, Ordering::Relaxed) {
        let terminal = HIDDEN_ON.load(Ordering::Relaxed);
        if terminal >= 0 {
            write(terminal, SHOW_CURSOR);
        }
        // SAFETY: `_exit` is safe in a signal handler: it ends the process without running any of its code.
        unsafe { libc::_exit(128 + signal) };
    }
    write(PIPE.load(Ordering::Relaxed), &[1]);
}

/// Writes without std, which might take a lock. Restores `errno` for the code that the signal interrupted.
fn write(fd: libc::c_int, bytes: &[u8]) {
    // SAFETY: the bytes are readable for their length; errno belongs to the thread that runs this.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(fd, bytes.as_ptr().cast(), bytes.len());
        *libc::__errno_location() = errno;
    }
}
