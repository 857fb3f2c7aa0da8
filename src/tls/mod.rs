//! Gives each goroutine private thread-local storage, which is what makes a safe `spawn` sound.
//!
//! A goroutine moves between OS threads. Code inside it may hold references into `thread_local!`s, cache
//! their addresses, or be unwinding (the panic count is a thread-local). So each goroutine owns a complete
//! TLS block, as a thread does, and the scheduler switches the thread pointer together with the stack.
//!
//! ```text
//! tp - used   static TLS of the loaded modules (the program, libc, ...)
//! tp          struct pthread: tcb pointer, dtv, self pointer, canary, pointer guard, tid, stack bounds ...
//!             what the sanitizers know about the goroutine, if one is in the program (sys/sanitizer.rs)
//! tp + above  end
//! ```
//!
//! - [`layout`] finds out, at start-up, where glibc keeps the fields that a block needs. Only the ABI of the
//!   x86-64 TCB head is hard-coded.
//! - [`block`] makes blocks and refreshes them for their next goroutine.
//! - [`loaded`] handles libraries that are loaded while goroutines run.
//! - [`malloc_cache`] lets all goroutines of an M use the M's cache of free memory.
//! - [`pristine`] recognises a goroutine that used no thread-locals, which saves most of the work at its end.
//! - [`output_capture`] lets the goroutine of a test print to where the test harness collects its output.
//! - [`thread_name`] gives the `std::thread::Thread` of a goroutine its name.
//! - [`check`] runs code on a block before the runtime relies on it.
//!
//! From one goroutine's switch-out to the next one's switch-in, the scheduler still runs on the old
//! goroutine's thread pointer. Another M may be running on that block by then, so the scheduler must not
//! touch TLS there (no malloc, no errno, no std).

pub(crate) mod block;
mod check;
pub(crate) mod layout;
pub(crate) mod loaded;
pub(crate) mod malloc_cache;
pub(crate) mod output_capture;
mod pristine;
pub(crate) mod thread_name;

pub(crate) use check::run as self_check;

/// Whether this platform's layout of thread-local storage is known. The error says what the platform lacks.
pub(crate) fn self_check_result() -> Result<(), String> {
    block::layout().map(drop).map_err(str::to_string)
}
pub(crate) use crate::arch::{set_thread_pointer as switch_to, thread_pointer as current};
