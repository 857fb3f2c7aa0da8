//! [`RwLock`], the public reader-writer lock: `lock_api`'s types and traits on top of [`RawRwLock`].

use std::time::{Duration, Instant};

use super::holder::Holder;
use super::holder::reads;
use super::raw::rwlock::{
    BLOCKS_READERS, BLOCKS_RECURSIVE, Queues, READER, RawRwLock, UPGRADABLE, WRITER, readers,
};
use super::raw::rwlock_grant::Keep;
use crate::base::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::base::lock::Lock;
use crate::sched::park::clock;

/// A reader-writer lock that blocks the goroutine, not its thread.
///
/// The API is `lock_api`'s, as in `parking_lot`, with upgradable reads, downgrades, timeouts and
/// `read_recursive`. There is no poisoning: a panic while a guard lives releases the lock. Neither readers
/// nor writers starve: running goroutines may overtake parked ones, but when a writer or a reader has waited
/// for a millisecond, newcomers queue behind it. The lock works from goroutines and from plain threads in any
/// mix. It takes 48 bytes besides the value.
///
/// A goroutine that holds a read lock and calls `read` again blocks forever if a writer has queued in between
/// and has waited for more than a millisecond. `read_recursive` does not block then.
///
/// ```
/// use gort::sync::{RwLock, RwLockUpgradableReadGuard};
///
/// static NAMES: RwLock<Vec<String>> = RwLock::new(Vec::new());
///
/// let add_once = |name: &str| {
///     let names = NAMES.upgradable_read();
///     if !names.iter().any(|n| n == name) {
///         RwLockUpgradableReadGuard::upgrade(names).push(name.to_owned());
///     }
/// };
/// add_once("gopher");
/// add_once("gopher");
/// assert_eq!(NAMES.read().len(), 1);
/// ```
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// The right to read the value of an [`RwLock`]. Dropping the guard releases the read lock.
///
/// ```
/// let lock = gort::sync::RwLock::new(1);
/// let (a, b): (gort::sync::RwLockReadGuard<'_, i32>, _) = (lock.read(), lock.read());
/// assert_eq!(*a + *b, 2);
/// ```
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// The right to write the value of an [`RwLock`]. Dropping the guard releases the write lock.
///
/// ```
/// use gort::sync::{RwLock, RwLockWriteGuard};
/// let lock = RwLock::new(1);
/// let mut guard = lock.write();
/// *guard = 2;
/// let guard = RwLockWriteGuard::downgrade(guard);
/// assert_eq!(*guard + *lock.read(), 4);
/// ```
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// The right to read the value of an [`RwLock`] and, later, to become its writer. A lock has at most one such
/// guard at a time.
///
/// ```
/// use gort::sync::{RwLock, RwLockUpgradableReadGuard};
/// let lock = RwLock::new(1);
/// let guard = lock.upgradable_read();
/// assert_eq!(*guard, *lock.read());
/// *RwLockUpgradableReadGuard::upgrade(guard) = 2;
/// assert_eq!(*lock.read(), 2);
/// ```
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// An [`RwLockReadGuard`] for a part of the value.
///
/// ```
/// use gort::sync::{RwLock, RwLockReadGuard};
/// let lock = RwLock::new((1, 2));
/// let second = RwLockReadGuard::map(lock.read(), |pair| &pair.1);
/// assert_eq!(*second, 2);
/// ```
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// An [`RwLockWriteGuard`] for a part of the value.
///
/// ```
/// use gort::sync::{RwLock, RwLockWriteGuard};
/// let lock = RwLock::new((1, 2));
/// *RwLockWriteGuard::map(lock.write(), |pair| &mut pair.1) = 3;
/// assert_eq!(*lock.read(), (1, 3));
/// ```
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

// SAFETY: a writer excludes all others, and readers exclude writers (invariant 1 in `raw/rwlock.rs`).
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "an initial value, as lock_api asks")]
    const INIT: RawRwLock = RawRwLock {
        state: AtomicU64::new(0),
        holder: Holder::new(),
        writer_since: AtomicU32::new(0),
        queues: Lock::new(Queues::new()),
    };

    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        self.acquire_shared(BLOCKS_READERS, None);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.try_acquire_shared(BLOCKS_READERS)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.release_shared();
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.acquire_exclusive(None);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.try_acquire_exclusive()
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.release_exclusive();
    }

    fn is_locked(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state & (WRITER | UPGRADABLE) != 0 || readers(state) != 0
    }

    fn is_locked_exclusive(&self) -> bool {
        self.state.load(Ordering::Relaxed) & WRITER != 0
    }
}

// SAFETY: the fair forms release the lock as the others do.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    unsafe fn unlock_shared_fair(&self) {
        // Readers have no fairer release: the last one wakes a writer, or hands the lock over in the starving
        // mode.
        self.release_shared();
    }

    unsafe fn unlock_exclusive_fair(&self) {
        self.holder.clear();
        self.pass_on(Keep::Nothing, true);
    }
}

// SAFETY: the writer becomes a reader in one step.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    unsafe fn downgrade(&self) {
        self.holder.clear();
        reads::add(self.address());
        // Release pairs with the Acquire of other readers.
        if self.state.compare_exchange(WRITER, READER, Ordering::Release, Ordering::Relaxed).is_err() {
            self.pass_on(Keep::Shared, false);
        }
    }
}

// SAFETY: the results tell whether the lock was taken.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.try_acquire_shared(BLOCKS_READERS)
            || (!timeout.is_zero() && self.acquire_shared(BLOCKS_READERS, clock::after(timeout)))
    }

    fn try_lock_shared_until(&self, timeout: Instant) -> bool {
        self.try_acquire_shared(BLOCKS_READERS)
            || (timeout > clock::now() && self.acquire_shared(BLOCKS_READERS, Some(timeout)))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.try_acquire_exclusive() || (!timeout.is_zero() && self.acquire_exclusive(clock::after(timeout)))
    }

    fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
        self.try_acquire_exclusive() || (timeout > clock::now() && self.acquire_exclusive(Some(timeout)))
    }
}

// SAFETY: only WRITER blocks these, and it cannot be set while the caller holds a read lock.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    fn lock_shared_recursive(&self) {
        self.acquire_shared(BLOCKS_RECURSIVE, None);
    }

    fn try_lock_shared_recursive(&self) -> bool {
        self.try_acquire_shared(BLOCKS_RECURSIVE)
    }
}

// SAFETY: the results tell whether the lock was taken.
unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
    fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
        self.try_acquire_shared(BLOCKS_RECURSIVE)
            || (!timeout.is_zero() && self.acquire_shared(BLOCKS_RECURSIVE, clock::after(timeout)))
    }

    fn try_lock_shared_recursive_until(&self, timeout: Instant) -> bool {
        self.try_acquire_shared(BLOCKS_RECURSIVE)
            || (timeout > clock::now() && self.acquire_shared(BLOCKS_RECURSIVE, Some(timeout)))
    }
}

// SAFETY: there is at most one upgradable reader at a time, and none while there is a writer.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    fn lock_upgradable(&self) {
        self.acquire_upgradable(None);
    }

    fn try_lock_upgradable(&self) -> bool {
        self.try_acquire_upgradable()
    }

    unsafe fn unlock_upgradable(&self) {
        self.release_upgradable(Keep::Nothing);
    }

    unsafe fn upgrade(&self) {
        RawRwLock::upgrade(self, None);
    }

    unsafe fn try_upgrade(&self) -> bool {
        RawRwLock::try_upgrade(self)
    }
}

// SAFETY: releases the lock as `unlock_upgradable` does, which is fair.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLock {
    unsafe fn unlock_upgradable_fair(&self) {
        self.release_upgradable(Keep::Nothing);
    }
}

// SAFETY: each of these changes the kind of the lock in one step.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    unsafe fn downgrade_upgradable(&self) {
        reads::add(self.address());
        self.release_upgradable(Keep::Shared);
    }

    unsafe fn downgrade_to_upgradable(&self) {
        // Release pairs with the Acquire of readers.
        if self.state.compare_exchange(WRITER, UPGRADABLE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.pass_on(Keep::Upgradable, false);
        }
    }
}

// SAFETY: the results tell whether the lock was taken.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLock {
    fn try_lock_upgradable_for(&self, timeout: Duration) -> bool {
        self.try_acquire_upgradable()
            || (!timeout.is_zero() && self.acquire_upgradable(clock::after(timeout)))
    }

    fn try_lock_upgradable_until(&self, timeout: Instant) -> bool {
        self.try_acquire_upgradable() || (timeout > clock::now() && self.acquire_upgradable(Some(timeout)))
    }

    unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
        RawRwLock::try_upgrade(self)
            || (!timeout.is_zero() && RawRwLock::upgrade(self, clock::after(timeout)))
    }

    unsafe fn try_upgrade_until(&self, timeout: Instant) -> bool {
        RawRwLock::try_upgrade(self) || (timeout > clock::now() && RawRwLock::upgrade(self, Some(timeout)))
    }
}
