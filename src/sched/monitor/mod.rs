//! The threads that run no goroutines, sysmon, the starter and the housekeeper, and preemption by signal.

pub(crate) mod housekeeper;
mod interrupted;
pub(crate) mod preempt;
pub(crate) mod shrink;
pub(crate) mod signal_handler;
pub(crate) mod starter;
pub(crate) mod sysmon;
