//! Locks and other ways to wait for one another: from goroutines and from plain threads, in any mix.

mod deadline;
mod holder;
mod mutex;
mod patience;
mod raw_mutex;
mod spin;
mod waitq;

pub use self::mutex::{MappedMutexGuard, Mutex, MutexGuard};
pub use self::raw_mutex::RawMutex;

#[cfg(test)]
mod tests;
