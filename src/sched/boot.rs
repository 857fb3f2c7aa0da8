//! Starting the one runtime of the process, on first use.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{procs, section, steward};
use crate::sys::thread;
use crate::tls;

static STARTED: AtomicBool = AtomicBool::new(false);
static BOOT: OnceLock<Result<(), String>> = OnceLock::new();

/// Starts the runtime unless it runs.
#[inline]
pub(crate) fn ensure() {
    // Acquire pairs with the store in `boot`.
    if !STARTED.load(Ordering::Acquire) {
        start();
    }
}

#[cold]
fn start() {
    BOOT.get_or_init(boot);
    STARTED.store(true, Ordering::Release);
}

fn boot() -> Result<(), String> {
    let private_tls = tls::self_check();
    section::init();
    crate::goroutine::panic::install_hook();
    procs::start(std::thread::available_parallelism().map_or(1, usize::from));
    if let Err(error) = thread::start("gort-steward", 128 << 10, steward::run) {
        super::throw("boot", format_args!("could not start the runtime's first thread: {error}"));
    }
    private_tls
}

/// Whether goroutines can have thread-local storage of their own; the error says what is missing.
#[inline]
pub(crate) fn private_tls_available() -> io::Result<()> {
    match BOOT.get() {
        Some(Err(missing)) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("goroutines cannot have private thread-local storage here: {missing}"),
        )),
        _ => Ok(()),
    }
}
