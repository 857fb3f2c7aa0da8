//! Making goroutines runnable, waking an M for them, stopping an M that has no work, and waiting for timers
//! and I/O.

pub(crate) mod due_timers;
pub(crate) mod fork_helpers;
pub(crate) mod locked_m;
pub(crate) mod poll_wait;
pub(crate) mod ready;
pub(crate) mod start_m;
pub(crate) mod stop_m;
pub(crate) mod wake_p;
pub(crate) mod wake_sysmon;
mod wake_waiter;
