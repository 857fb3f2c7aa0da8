//! Keeping data of a running goroutine alive while a report reads it.
//!
//! A goroutine's name lives in its join packet, and the registers of a marked blocking call in that call's
//! frame. Both may go away at any time while the goroutine runs. A report that does not own the goroutine
//! reads them like this:
//!
//! ```text
//! report                                    goroutine
//! R1 READERS = 1                            L1 takes the pointer away
//! R2 membarrier                             L2 compiler fence
//! R3 reads the pointer; if it is there,     L3 READERS == 0? else waits until it is
//!    what it points to                      L4 frees what it pointed to
//! R4 READERS = 0
//! ```
//! Either the barrier R2 takes effect on the goroutine's thread before L3: then L3 sees 1 and waits. Or it
//! takes effect after L3: then R3 sees L1, which comes before L3. The goroutine pays one load and a
//! well-predicted branch.

use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use crate::sys::membarrier;

static READERS: AtomicU32 = AtomicU32::new(0);

/// While it lives, everything stays alive that a pointer read after its creation points to.
pub(crate) struct Reading(());

/// `None` if the kernel has no membarrier: then nothing may be read this way.
pub(crate) fn begin() -> Option<Reading> {
    if !membarrier::is_available() {
        return None;
    }
    READERS.fetch_add(1, Ordering::SeqCst);
    membarrier::all_threads();
    Some(Reading(()))
}

impl Drop for Reading {
    fn drop(&mut self) {
        // Release: our reads come before the owner frees the data; pairs with the Acquire in `wait`.
        READERS.fetch_sub(1, Ordering::Release);
    }
}

/// Called after a pointer was taken away and before the data behind it is freed: waits for reports that read
/// it.
#[inline(always)]
pub(crate) fn let_them_finish() {
    compiler_fence(Ordering::SeqCst);
    if READERS.load(Ordering::Relaxed) != 0 {
        wait();
    }
}

/// Yields until no report reads, because a report reads for microseconds at a time.
#[cold]
fn wait() {
    while READERS.load(Ordering::Acquire) != 0 {
        std::thread::yield_now();
    }
}
