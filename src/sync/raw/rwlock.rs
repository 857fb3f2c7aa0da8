//! The reader-writer lock itself: one word and three queues. This file takes the lock; `rwlock_grant.rs`
//! releases it and grants it to waiters.
//!
//! The lock has two modes, like the mutex.
//! - Normal mode: goroutines that run may overtake parked ones. A release frees the lock and wakes all queued
//!   readers or, if there are none, one writer; the woken ones compete for the lock. This keeps a busy lock
//!   with goroutines that run. Handing it to a parked goroutine would make all others park: one switch for
//!   each step, without end.
//! - Starving mode: nobody overtakes, and a release hands the lock over. A writer that leaves hands it to all
//!   queued readers; the last reader that leaves hands it to the first writer.
//!
//! Two kinds of goroutine turn the starving mode on:
//! - a waiter that was woken, lost the race, and has waited for more than a millisecond;
//! - a reader that finds other readers inside while writers are queued, none of which was served for more
//!   than a millisecond. (Otherwise overlapping readers would keep a writer out without ever waking it.)
//!
//! The mode ends when the lock is handed to a writer, or when a waiter has left the queues and no writer is
//! queued any more. So under any load the lock serves a writer about every millisecond, in the order of the
//! queue, and serves readers after each writer.
//!
//! The word:
//! - WRITER: the lock is held for writing.
//! - UPGRADABLE: a reader holds the one upgradable read lock. It excludes writers, not readers. A release
//!   hands it to the next upgrader, unless a writer is queued.
//! - SHARED_QUEUED: the queue of readers or that of upgraders is not empty.
//! - WRITER_QUEUED: a writer, or an upgradable reader that wants to write, is queued.
//! - WOKEN: a writer is awake and will look at the lock again. It has one owner, as in the mutex.
//! - STARVING: the lock is in the starving mode.
//! - READER × n: the count of the readers inside, plus the false counts described below.
//!
//! Invariants:
//! 1. WRITER is set only by a step that found no WRITER, no READER, and no UPGRADABLE except the caller's
//!    own.
//! 2. The two QUEUED bits change only under the queues' lock.
//! 3. STARVING is set under the queues' lock, or by a step that finds WRITER_QUEUED set. It is cleared only
//!    under that lock. It implies that one of the QUEUED bits is set.
//!
//! A reader first adds READER and then looks at the result. That is one read-modify-write, which cannot fail
//! however many readers come at once. If the reader finds itself blocked, its count is false until one of two
//! things happens. Either the reader sees that the block is gone: then the count is true, and the reader is
//! inside. Or it takes the count back under the queues' lock, and then does what the last reader to leave
//! does. So a false count may delay a writer, but as soon as it is taken back the writer is woken or gets the
//! lock.
//!
//! Why no wake-up is lost. A waiter queues under the queues' lock, by a step that found the lock held in a
//! way that blocks the waiter, or STARVING set. Then it calls `grant`. Every step that ends a holding reads
//! the QUEUED bits in the same step; if one is set, the goroutine takes the queues' lock and calls `grant` or
//! passes the lock on. So while a waiter is queued, one of these holds:
//! - The lock is held.
//! - A goroutine is on its way to the queues' lock.
//! - A woken goroutine is awake: a writer that owns WOKEN, or a reader. It takes the lock or queues again, by
//!   the same rules.
//!
//! A waiter that gives up calls `grant` too, because it may have been the only reason for others to wait.
//!
//! Orderings are those of the mutex. Readers release by a Release subtraction; a writer's Acquire step reads
//! the end of that release sequence.

use std::time::Instant;

use super::starvation;
use super::waitq::Queue;
use crate::base::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::base::lock::{Lock, Rank, Ranked};
use crate::sync::holder::Holder;
use crate::sync::holder::reads;

pub(in crate::sync) const WRITER: u64 = 1;
pub(in crate::sync) const UPGRADABLE: u64 = 2;
pub(in crate::sync) const SHARED_QUEUED: u64 = 4;
pub(in crate::sync) const WRITER_QUEUED: u64 = 8;
pub(in crate::sync) const QUEUED: u64 = SHARED_QUEUED | WRITER_QUEUED;
pub(in crate::sync) const WOKEN: u64 = 16;
pub(in crate::sync) const STARVING: u64 = 32;
pub(in crate::sync) const READER: u64 = 64;

/// The bits that block a new reader.
pub(in crate::sync) const BLOCKS_READERS: u64 = WRITER | STARVING;
/// The bits that block a reader that may already hold a read lock. STARVING is not among them: the reader
/// could wait for a writer that waits for the reader.
pub(in crate::sync) const BLOCKS_RECURSIVE: u64 = WRITER;
/// The bits that block a new upgradable reader.
pub(super) const BLOCKS_UPGRADABLE: u64 = WRITER | UPGRADABLE | WRITER_QUEUED | STARVING;

/// Tags of the nodes in the queue of upgraders: to get the upgradable lock, or to upgrade it to a write lock.
pub(in crate::sync) const TO_READ_UPGRADABLY: usize = 1;
pub(in crate::sync) const TO_UPGRADE: usize = 2;

/// The lock under [`RwLock`](crate::sync::RwLock), for use with `lock_api`.
///
/// ```
/// use gort::sync::RawRwLock;
/// let lock = lock_api::RwLock::<RawRwLock, _>::new(1);
/// assert_eq!(*lock.read(), 1);
/// ```
pub struct RawRwLock {
    pub(in crate::sync) state: AtomicU64,
    pub(in crate::sync) holder: Holder,
    /// A [`starvation::stamp`] of when a queued writer was last served. If no writer was queued before, of
    /// when the first one began to wait.
    pub(in crate::sync) writer_since: AtomicU32,
    pub(in crate::sync) queues: Lock<Queues>,
}

/// All waiters of one lock.
pub(in crate::sync) struct Queues {
    pub(in crate::sync) readers: Queue,
    /// The goroutines that want the upgradable lock. In front of them, the one that has it and wants to
    /// write.
    pub(in crate::sync) upgraders: Queue,
    pub(in crate::sync) writers: Queue,
}

impl Ranked for Queues {
    const RANK: Rank = Rank::Alone;
}

impl Queues {
    pub(in crate::sync) const fn new() -> Queues {
        Queues { readers: Queue::new(), upgraders: Queue::new(), writers: Queue::new() }
    }

    /// The QUEUED bits that these queues call for.
    pub(in crate::sync) fn bits(&self) -> u64 {
        let mut bits = 0;
        if !self.readers.is_empty() || !self.upgraders.is_empty() {
            bits |= SHARED_QUEUED;
        }
        if !self.writers.is_empty() || self.upgraders.front_tag() == Some(TO_UPGRADE) {
            bits |= WRITER_QUEUED;
        }
        bits
    }
}

/// The number of readers in the word, false counts included.
pub(in crate::sync) fn readers(state: u64) -> u64 {
    state / READER
}

/// Whether a writer may take the lock.
pub(in crate::sync) fn is_free(state: u64) -> bool {
    state & (WRITER | UPGRADABLE | STARVING) == 0 && readers(state) == 0
}

impl RawRwLock {
    /// Takes a read lock. `blocked_by` is `BLOCKS_READERS` or `BLOCKS_RECURSIVE`.
    #[inline]
    pub(in crate::sync) fn acquire_shared(&self, blocked_by: u64, deadline: Option<Instant>) -> bool {
        // Acquire pairs with the Release of the last writer.
        let before = self.state.fetch_add(READER, Ordering::Acquire);
        if before & (blocked_by | WRITER_QUEUED) != 0
            && !self.acquire_shared_slow(before, blocked_by, deadline)
        {
            return false;
        }
        reads::add(self.address());
        true
    }

    #[inline]
    #[must_use]
    pub(in crate::sync) fn try_acquire_shared(&self, blocked_by: u64) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & blocked_by == 0 && !self.should_wait(blocked_by, state) {
            match self.state.compare_exchange_weak(
                state,
                state + READER,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    reads::add(self.address());
                    return true;
                }
                Err(now) => state = now,
            }
        }
        false
    }

    /// Whether a reader that could enter should let a queued writer go first.
    pub(super) fn should_wait(&self, blocked_by: u64, state: u64) -> bool {
        blocked_by & STARVING != 0 && state & WRITER_QUEUED != 0 && {
            // Pairs with the Release that set WRITER_QUEUED, so we do not read the stamp of an earlier wait.
            fence(Ordering::Acquire);
            starvation::is_overdue(self.writer_since.load(Ordering::Relaxed))
        }
    }

    #[inline]
    pub(in crate::sync) fn acquire_exclusive(&self, deadline: Option<Instant>) -> bool {
        if self.state.compare_exchange_weak(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_err()
            && !self.acquire_exclusive_slow(deadline)
        {
            return false;
        }
        self.holder.mark();
        true
    }

    #[inline]
    #[must_use]
    pub(in crate::sync) fn try_acquire_exclusive(&self) -> bool {
        let mut state = 0;
        loop {
            match self.state.compare_exchange(state, state | WRITER, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    self.holder.mark();
                    return true;
                }
                Err(now) if is_free(now) => state = now,
                Err(_) => return false,
            }
        }
    }

    pub(in crate::sync) fn acquire_upgradable(&self, deadline: Option<Instant>) -> bool {
        if !self.try_acquire_upgradable() && !self.acquire_upgradable_slow(deadline) {
            return false;
        }
        self.holder.mark();
        true
    }

    #[must_use]
    pub(in crate::sync) fn try_acquire_upgradable(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & BLOCKS_UPGRADABLE == 0 {
            match self.state.compare_exchange_weak(
                state,
                state | UPGRADABLE,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    self.holder.mark();
                    return true;
                }
                Err(now) => state = now,
            }
        }
        false
    }

    /// Turns the caller's upgradable lock into a write lock. If this fails, the caller keeps the upgradable
    /// lock.
    pub(in crate::sync) fn upgrade(&self, deadline: Option<Instant>) -> bool {
        self.try_upgrade() || self.upgrade_slow(deadline)
    }

    #[must_use]
    pub(in crate::sync) fn try_upgrade(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while readers(state) == 0 {
            match self.state.compare_exchange_weak(
                state,
                state - UPGRADABLE + WRITER,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// The address by which reports identify this lock.
    pub(in crate::sync) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}
