//! The only place that talks to the operating system. It knows nothing of goroutines.

pub(crate) mod cgroup;
pub(crate) mod cpus;
pub(crate) mod env;
pub(crate) mod facts;
#[cfg(test)]
mod fake;
pub(crate) mod futex;
pub(crate) mod syscall;
pub(crate) mod topology;
