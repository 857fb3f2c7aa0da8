//! The scheduler's nouns as types: G, M, P, and Waiter.

pub(crate) mod current;
pub(crate) mod foreign_thread;
pub(crate) mod g;
mod g_slots;
pub(crate) mod m;
pub(crate) mod p;
mod thread_pointer;
pub(crate) mod wait_times;
pub(crate) mod waiter;
