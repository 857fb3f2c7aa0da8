//! Locks and other synchronization primitives, for goroutines and plain threads in any mix.
//!
//! The names and APIs are familiar ones. [`Mutex`], [`RwLock`] and [`Condvar`] are `parking_lot`'s: there is
//! no poisoning, and a panic releases what its goroutine held. [`Once`], [`OnceLock`], [`LazyLock`] and
//! [`Barrier`] are std's. [`WaitGroup`], [`Pool`], [`Group`] and [`SingleFlight`] are Go's. [`Semaphore`] is
//! weighted and fair.
//!
//! A wait blocks the goroutine, not its thread, and allocates nothing. All timeouts accept `Duration::MAX`,
//! which means forever; with `Duration::ZERO` they try once.
//!
//! ```
//! use gort::sync::{Mutex, WaitGroup};
//! use std::sync::Arc;
//!
//! let (total, group) = (Arc::new(Mutex::new(0)), WaitGroup::new());
//! for n in 1..=10 {
//!     group.add(1);
//!     let (total, group) = (total.clone(), group.clone());
//!     std::thread::spawn(move || {
//!         *total.lock() += n;
//!         group.done();
//!     });
//! }
//! group.wait();
//! assert_eq!(*total.lock(), 55);
//! ```

mod barrier;
mod condvar;
mod go;
mod group;
pub(crate) mod holder;
mod lazy_lock;
mod mutex;
mod once;
mod once_lock;
mod pool;
mod raw;
mod rwlock;
mod semaphore;
mod singleflight;
mod slot;
mod wait_group;

pub use self::barrier::{Barrier, BarrierWaitResult};
pub use self::condvar::{Condvar, WaitTimeoutResult};
pub use self::group::Group;
pub(crate) use self::holder::of_waiters::{Blockers, Crowd, Holders, waits_for_notification};
pub use self::lazy_lock::LazyLock;
pub use self::mutex::{MappedMutexGuard, Mutex, MutexGuard};
pub use self::once::Once;
pub use self::once_lock::OnceLock;
pub use self::pool::Pool;
pub use self::raw::mutex::RawMutex;
pub use self::raw::rwlock::RawRwLock;
pub use self::rwlock::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};
pub use self::semaphore::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, TooManyPermits};
pub use self::singleflight::SingleFlight;
pub use self::wait_group::WaitGroup;

#[cfg(test)]
mod tests;
