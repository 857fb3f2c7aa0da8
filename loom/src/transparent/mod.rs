//! gort's `transparent`: the futex table, and what is known of descriptors.

#[path = "../../../src/transparent/descriptor/known.rs"]
pub(crate) mod known;
#[path = "../../../src/transparent/futex/table.rs"]
pub(crate) mod table;

pub(crate) mod futex {
    pub(crate) use super::table;
}

/// Nothing stops a thread of a model.
pub(crate) mod who {
    pub(crate) mod place {
        pub(crate) fn uninterrupted<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
    }
}

pub mod known_models;
pub mod models;
