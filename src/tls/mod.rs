//! A goroutine's private thread-local storage: why a safe `spawn` is sound.
//!
//! A goroutine moves between OS threads. Code inside it may hold references into `thread_local!`s, cache
//! their addresses, or be unwinding (the panic count is a thread-local). So each goroutine owns a complete
//! TLS block, as a thread does, and the scheduler switches the thread pointer together with the stack.
//!
//! ```text
//! tp - used   static TLS of the loaded modules (the program, libc, ...)
//! tp          struct pthread: tcb pointer, dtv, self pointer, canary, pointer guard, tid, stack bounds ...
//! tp + above  end
//! ```
//!
//! - [`layout`] finds out, at start-up, where glibc keeps the fields that a block needs; nothing is
//!   hard-coded but the ABI of the x86-64 TCB head.
//! - [`block`] makes, refreshes and destroys blocks.
//! - [`loaded`] looks after libraries that are loaded later.
//! - [`pristine`] saves most of the work when a goroutine used no thread-locals.
//! - [`check`] runs code on a block before the runtime relies on it.
//!
//! Between a goroutine's switch-out and the next switch-in the scheduler runs on the old goroutine's thread
//! pointer, which by then may belong to another M: it must not touch TLS there (no malloc, no errno, no std).

pub(crate) mod block;
mod check;
pub(crate) mod layout;
pub(crate) mod loaded;
mod pristine;
mod register;

pub(crate) use check::run as self_check;

/// What [`self_check`] found out, or would.
pub(crate) fn self_check_result() -> Result<(), String> {
    block::layout().map(drop).map_err(str::to_string)
}
pub(crate) use register::{current, switch_to};
