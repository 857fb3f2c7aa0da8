//! Running goroutines: choosing the next one, switching to it, starting and ending one, and runtime sections.

pub(crate) mod child_first;
pub(crate) mod find_runnable;
mod machine_platform;
pub(crate) mod runtime_section;
pub(crate) mod schedule;
pub(crate) mod small_blocks;
pub(crate) mod spawn;
pub(crate) mod steal;
mod tell_sanitizers;
