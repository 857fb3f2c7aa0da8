//! Building blocks for the layers of the core: locks that block the thread, lists, cells. Nothing here knows
//! what a goroutine is. Only `sys` and `arch` lie below.

pub(crate) mod atomic;
pub(crate) mod deque;
pub(crate) mod free_list;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod note;
pub(crate) mod owner_cell;
pub(crate) mod prefetch;

/// A runtime bug: prints `gort: <place>: <what>` and aborts.
#[cold]
pub(crate) fn throw(place: &str, what: std::fmt::Arguments<'_>) -> ! {
    crate::sys::stderr::write(&format!("gort: {place}: {what}\n"));
    std::process::abort()
}
