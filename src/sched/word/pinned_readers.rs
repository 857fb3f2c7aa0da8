//! Keeping a goroutine's belongings alive while a report reads them.
//!
//! A goroutine's name lives in its join packet, and the registers of a marked blocking call in that call's
//! frame. Both go away while the goroutine runs on, and nobody tells the report. A report that does not own
//! the goroutine reads them so:
//!
//! ```text
//! report                                    goroutine
//! R1 READERS = 1                            L1 takes the pointer away
//! R2 membarrier                             L2 compiler fence
//! R3 reads the pointer; if it is there,     L3 READERS == 0? else waits until it is
//!    what it points to                      L4 frees what it pointed to
//! R4 READERS = 0
//! ```
//! The barrier R2 comes before L3 on the goroutine's thread, and then L3 sees 1 and waits; or after, and then
//! L1, which comes before L3, is seen by R3. The goroutine pays one load and a branch that is always the
//! same.

use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use crate::sys::membarrier;

static READERS: AtomicU32 = AtomicU32::new(0);

/// As long as it lives, what a pointer taken after its making points to stays.
pub(crate) struct Reading(());

/// `None` where the kernel has no such barrier: nothing is read this way then.
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
        // Release: our reads come before what is freed then; pairs with the Acquire in `wait`.
        READERS.fetch_sub(1, Ordering::Release);
    }
}

/// After a pointer was taken away, before what it points to goes.
#[inline(always)]
pub(crate) fn let_them_finish() {
    compiler_fence(Ordering::SeqCst);
    if READERS.load(Ordering::Relaxed) != 0 {
        wait();
    }
}

/// A report reads for microseconds at a time.
#[cold]
fn wait() {
    while READERS.load(Ordering::Acquire) != 0 {
        std::thread::yield_now();
    }
}
