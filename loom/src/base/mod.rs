//! gort's `base`, with loom's atomics, locks and threads.

pub(crate) mod atomic;
#[path = "../../../src/base/deque.rs"]
pub(crate) mod deque;
#[path = "../../../src/base/free_list.rs"]
pub(crate) mod free_list;
#[path = "../../../src/base/list.rs"]
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod note;
#[path = "../../../src/base/owner_cell.rs"]
pub(crate) mod owner_cell;
#[path = "../../../src/base/prefetch.rs"]
pub(crate) mod prefetch;

pub(crate) fn throw(place: &str, what: std::fmt::Arguments<'_>) -> ! {
    panic!("{place}: {what}")
}
