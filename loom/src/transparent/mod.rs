//! gort's `transparent`: the futex table.

#[path = "../../../src/transparent/futex_table.rs"]
pub(crate) mod futex_table;

/// Nothing stops a thread of a model.
pub(crate) mod place {
    pub(crate) fn uninterrupted<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}

pub mod models;
