//! The scheduler: goroutines (G), OS threads (M), processors (P).

pub(crate) mod lock;
pub(crate) mod note;
pub(crate) mod reason;
pub(crate) mod waiter;
