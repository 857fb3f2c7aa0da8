//! Atomic words in which two sides meet without a lock: one file each, with its states and the argument why
//! no wake-up is lost.

pub(crate) mod future_word;
pub(crate) mod park_word;
pub(crate) mod pinned_readers;
