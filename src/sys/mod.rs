//! The only place that talks to the operating system. It knows nothing of goroutines.

pub(crate) mod clock;
pub(crate) mod futex;
pub(crate) mod syscall;
