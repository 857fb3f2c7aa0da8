//! gort's `transparent`: the futex table, and what is known of descriptors.

#[path = "../../../src/transparent/futex_table.rs"]
pub(crate) mod futex_table;
#[path = "../../../src/transparent/known.rs"]
pub(crate) mod known;

/// Nothing stops a thread of a model.
pub(crate) mod place {
    pub(crate) fn uninterrupted<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}

pub mod known_models;
pub mod models;
