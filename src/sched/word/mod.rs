//! States that fit into an atomic word: one file each. In all of them but `status`, which only reports read,
//! two sides meet without a lock, and the file argues why neither misses the other.

pub(crate) mod future_word;
pub(crate) mod park_word;
pub(crate) mod pinned_readers;
pub(crate) mod status;
pub(crate) mod unmarked_call;
