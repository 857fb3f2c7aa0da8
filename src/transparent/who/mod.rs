//! Who calls a function of libc: a goroutine that may park, a thread, a signal handler, a child process.

pub(super) mod caller;
pub(super) mod enabled;
pub(super) mod handlers;
pub(super) mod place;
