//! `crate::atomic` over loom, with small constants.

pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

pub(crate) const CHAN_BLOCK: usize = 2;
