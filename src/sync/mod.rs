//! Locks and other ways to wait for one another: from goroutines and from plain threads, in any mix.

mod deadline;
mod holder;
mod mutex;
mod patience;
mod raw_mutex;
mod raw_rwlock;
mod rwlock;
mod rwlock_grant;
mod spin;
mod waitq;

pub use self::mutex::{MappedMutexGuard, Mutex, MutexGuard};
pub use self::raw_mutex::RawMutex;
pub use self::raw_rwlock::RawRwLock;
pub use self::rwlock::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};

#[cfg(test)]
mod tests;
