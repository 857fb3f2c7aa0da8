//! The reader-writer lock itself: one word and three queues. This file is about taking the lock; releasing
//! and granting are in `rwlock_grant.rs`.
//!
//! Two modes, as the mutex has. In the normal mode whoever runs may overtake those that are parked: a release
//! frees the lock and wakes all queued readers or, if there are none, a writer, and they compete. That keeps
//! a busy lock with those that run; to give it to parked ones would make everybody else park, one switch for
//! each step, without end. In the starving mode nobody overtakes, and the lock is handed over: to all queued
//! readers when a writer leaves, to the first writer when the last reader leaves.
//!
//! The starving mode is turned on by a waiter that was woken and lost after having waited for more than a
//! millisecond, and by a reader that finds other readers inside while writers are queued and none of them was
//! served for that long (readers that overlap would otherwise keep a writer out without ever waking it). It ends when a
//! writer was handed the lock, or readers were and no writer waits. So under any load a writer is served at
//! least every millisecond or so, in their order, and readers are after each writer.
//!
//! The word:
//! - WRITER: held for writing.
//! - UPGRADABLE: somebody holds the one upgradable read lock. It excludes writers, not readers, and is always
//!   handed over.
//! - SHARED_QUEUED: the queue of readers or that of upgraders is not empty.
//! - WRITER_QUEUED: a writer, or an upgradable reader that wants to write, is queued.
//! - WOKEN: a writer is awake and will look at the lock again. It has one owner, as in the mutex.
//! - STARVING: as above.
//! - READER × n: readers inside, plus some that only passed through the door (below).
//!
//! The two QUEUED bits change only under the queues' lock. STARVING is set there too, or by a step that finds
//! WRITER_QUEUED set, and cleared only under that lock. It implies that one of the QUEUED bits is set.
//!
//! A reader adds READER first and looks at the result after: one read-modify-write, which cannot fail however
//! many readers come at once. If it finds itself blocked, its count is a false one until it either sees the
//! block gone (then the count is a true one, and it is in) or takes it back. It does the latter under the
//! queues' lock and then does what a last reader does. So a false count may delay a writer, but the writer
//! is woken or gets the lock as soon as the count is taken back.
//!
//! WRITER is set only by a step that found no WRITER, no READER, and no UPGRADABLE but one's own.
//!
//! Why no wake-up is lost. Everybody queues under the queues' lock, by a step that found the lock held in a
//! way that blocks it, or STARVING set, and then calls `grant`. All steps that end a holding see the QUEUED
//! bits in the same step, and if any is set go to the queues' lock and call `grant` or pass the lock on. So
//! while somebody is queued, the lock is held, or somebody is on its way to the queues' lock, or somebody who
//! was woken is awake: a writer, owning WOKEN, or a reader. Those take the lock or queue, by the same rules.
//! Whoever gives up calls `grant` too: others may have waited only because of it.
//!
//! Orderings: as for the mutex. Readers release by a Release subtraction; a writer's Acquire step reads
//! the end of that release sequence.

use std::time::Instant;

use super::holder::Holder;
use super::patience::{self, Patience};
use super::reads;
use super::spin::Spin;
use super::waitq::{GRANTED, Node, Queue, RETRY};
use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;

pub(super) const WRITER: u64 = 1;
pub(super) const UPGRADABLE: u64 = 2;
pub(super) const SHARED_QUEUED: u64 = 4;
pub(super) const WRITER_QUEUED: u64 = 8;
pub(super) const QUEUED: u64 = SHARED_QUEUED | WRITER_QUEUED;
pub(super) const WOKEN: u64 = 16;
pub(super) const STARVING: u64 = 32;
pub(super) const READER: u64 = 64;

/// What blocks a reader, and one that may hold a read lock already.
pub(super) const BLOCKS_READERS: u64 = WRITER | STARVING;
pub(super) const BLOCKS_RECURSIVE: u64 = WRITER;
const BLOCKS_UPGRADABLE: u64 = WRITER | UPGRADABLE | WRITER_QUEUED | STARVING;

/// Tags of nodes in the queue of upgraders.
pub(super) const TO_READ_UPGRADABLY: usize = 1;
pub(super) const TO_UPGRADE: usize = 2;

/// The lock under [`RwLock`](super::RwLock), for use with `lock_api`.
///
/// ```
/// use gort::sync::RawRwLock;
/// let lock = lock_api::RwLock::<RawRwLock, _>::new(1);
/// assert_eq!(*lock.read(), 1);
/// ```
pub struct RawRwLock {
    pub(super) state: AtomicU64,
    pub(super) holder: Holder,
    /// When a writer was last served, or began to wait if none waited before. A [`patience::stamp`].
    pub(super) writer_since: AtomicU32,
    pub(super) queues: Lock<Queues>,
}

/// Everybody who waits.
pub(super) struct Queues {
    pub(super) readers: Queue,
    /// Those that want the upgradable lock; before them the one that has it and wants to write.
    pub(super) upgraders: Queue,
    pub(super) writers: Queue,
}

impl Queues {
    pub(super) const fn new() -> Queues {
        Queues { readers: Queue::new(), upgraders: Queue::new(), writers: Queue::new() }
    }

    /// The QUEUED bits that are true of these queues.
    pub(super) fn bits(&self) -> u64 {
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

/// How many readers the word counts.
pub(super) fn readers(state: u64) -> u64 {
    state / READER
}

/// Whether a writer may take the lock.
pub(super) fn is_free(state: u64) -> bool {
    state & (WRITER | UPGRADABLE | STARVING) == 0 && readers(state) == 0
}

impl RawRwLock {
    /// Takes a read lock. `blocked_by` is `BLOCKS_READERS` or `BLOCKS_RECURSIVE`.
    #[inline]
    pub(super) fn acquire_shared(&self, blocked_by: u64, deadline: Option<Instant>) -> bool {
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
    pub(super) fn try_acquire_shared(&self, blocked_by: u64) -> bool {
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
    fn should_wait(&self, blocked_by: u64, state: u64) -> bool {
        blocked_by & STARVING != 0 && state & WRITER_QUEUED != 0 && {
            // Pairs with the Release that set WRITER_QUEUED: the stamp is not that of an earlier wait.
            fence(Ordering::Acquire);
            patience::is_overdue(self.writer_since.load(Ordering::Relaxed))
        }
    }

    #[inline]
    pub(super) fn acquire_exclusive(&self, deadline: Option<Instant>) -> bool {
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
    pub(super) fn try_acquire_exclusive(&self) -> bool {
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

    pub(super) fn acquire_upgradable(&self, deadline: Option<Instant>) -> bool {
        if !self.try_acquire_upgradable() && !self.acquire_upgradable_slow(deadline) {
            return false;
        }
        self.holder.mark();
        true
    }

    #[must_use]
    pub(super) fn try_acquire_upgradable(&self) -> bool {
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

    /// From upgradable to writing. The caller holds the upgradable lock, and keeps it if this fails.
    pub(super) fn upgrade(&self, deadline: Option<Instant>) -> bool {
        self.try_upgrade() || self.upgrade_slow(deadline)
    }

    #[must_use]
    pub(super) fn try_upgrade(&self) -> bool {
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

    /// Our READER is in the word, and found it to be `before`.
    #[cold]
    fn acquire_shared_slow(&self, before: u64, blocked_by: u64, deadline: Option<Instant>) -> bool {
        if before & blocked_by == 0 && readers(before) == 0 {
            // The last reader to leave has seen to the writers.
            return true;
        }
        let mut patience = Patience::new();
        let mut spin = Spin::new();
        let mut again = false;
        loop {
            // Acquire pairs with the Release of a writer that has just left.
            let state = self.state.load(Ordering::Acquire);
            if state & blocked_by == 0 {
                if !self.should_wait(blocked_by, state) {
                    return true;
                }
                // If this fails, look again.
                let starving = state | STARVING;
                let _ = self.state.compare_exchange(state, starving, Ordering::Relaxed, Ordering::Relaxed);
                continue;
            }
            // While anybody is queued our false count would be in the way: no lingering.
            if state & QUEUED == 0 && spin.once() {
                continue;
            }
            patience.start();
            let starving = if again && patience.is_exhausted() { STARVING } else { 0 };
            let node = Node::new(0);
            if !self.enqueue_reader(&node, blocked_by, starving) {
                return true;
            }
            match node.park(WaitReason::RwLockRead, self.address(), deadline) {
                GRANTED => return true,
                RETRY => {
                    again = true;
                    self.state.fetch_add(READER, Ordering::Relaxed);
                }
                _ => {
                    self.leave(&node, |queues| &mut queues.readers);
                    return false;
                }
            }
        }
    }

    /// Takes our false count back and queues. False if the block is gone: then the count is true and we are in.
    fn enqueue_reader(&self, node: &Node, blocked_by: u64, starving: u64) -> bool {
        let mut queues = self.queues.lock();
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            if state & blocked_by == 0 {
                return false;
            }
            let queued = (state - READER) | SHARED_QUEUED | starving;
            match self.state.compare_exchange_weak(state, queued, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: the node stays until it was granted, woken, or has left by `leave`.
        unsafe { queues.readers.push_back(node) };
        // Our false count may have been the last that kept a writer waiting.
        let granted = self.grant(&mut queues);
        drop(queues);
        granted.ready_all();
        true
    }

    #[cold]
    fn acquire_exclusive_slow(&self, deadline: Option<Instant>) -> bool {
        let mut patience = Patience::new();
        let mut spin = Spin::new();
        let (mut woken, mut again) = (false, false);
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let mine = if woken { WOKEN } else { 0 };
            if is_free(state) {
                let taken = (state | WRITER) & !mine;
                match self.state.compare_exchange_weak(state, taken, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return true,
                    Err(now) => state = now,
                }
                continue;
            }
            if state & STARVING == 0 && spin.once() {
                if !woken && state & (WRITER_QUEUED | WOKEN) == WRITER_QUEUED {
                    woken = self
                        .state
                        .compare_exchange_weak(state, state | WOKEN, Ordering::Relaxed, Ordering::Relaxed)
                        .is_ok();
                }
                state = self.state.load(Ordering::Relaxed);
                continue;
            }
            patience.start();
            let starving = if again && patience.is_exhausted() { STARVING } else { 0 };
            let node = Node::new(0);
            if !self.enqueue_writer(&node, mine, starving, again) {
                state = self.state.load(Ordering::Relaxed);
                continue;
            }
            match node.park(WaitReason::RwLockWrite, self.address(), deadline) {
                GRANTED => return true,
                RETRY => {
                    woken = true;
                    again = true;
                    spin.reset();
                    state = self.state.load(Ordering::Relaxed);
                }
                _ => {
                    self.leave(&node, |queues| &mut queues.writers);
                    return false;
                }
            }
        }
    }

    /// Under the queues' lock, before WRITER_QUEUED is set (a Release, so that a reader who sees it sees the stamp):
    /// from now on the first writer waits.
    fn stamp_first_writer(&self, state: u64) {
        if state & WRITER_QUEUED == 0 {
            self.writer_since.store(patience::stamp(), Ordering::Relaxed);
        }
    }

    /// Queues a writer, giving up `mine` (WOKEN, if the caller has it). False if the lock has become free.
    fn enqueue_writer(&self, node: &Node, mine: u64, starving: u64, front: bool) -> bool {
        let mut queues = self.queues.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        self.stamp_first_writer(state);
        loop {
            if is_free(state) {
                return false;
            }
            let queued = ((state | WRITER_QUEUED) & !mine) | starving;
            match self.state.compare_exchange_weak(state, queued, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: the node stays until it was granted, woken, or has left by `leave`.
        unsafe {
            if front {
                queues.writers.push_front(node);
            } else {
                queues.writers.push_back(node);
            }
        }
        // STARVING may have kept us from a lock that nobody holds.
        let granted = self.grant(&mut queues);
        drop(queues);
        granted.ready_all();
        true
    }

    #[cold]
    fn acquire_upgradable_slow(&self, deadline: Option<Instant>) -> bool {
        let node = Node::new(TO_READ_UPGRADABLY);
        let mut queues = self.queues.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let blocked = state & BLOCKS_UPGRADABLE != 0;
            let next = if blocked { state | SHARED_QUEUED } else { state | UPGRADABLE };
            match self.state.compare_exchange_weak(state, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if blocked => break,
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        // SAFETY: the node stays until it was granted, or has left by `leave`.
        unsafe { queues.upgraders.push_back(&node) };
        let granted = self.grant(&mut queues);
        drop(queues);
        granted.ready_all();
        if node.park(WaitReason::RwLockRead, self.address(), deadline) == GRANTED {
            return true;
        }
        self.leave(&node, |queues| &mut queues.upgraders);
        false
    }

    #[cold]
    fn upgrade_slow(&self, deadline: Option<Instant>) -> bool {
        let mut spin = Spin::new();
        while spin.once() {
            if self.try_upgrade() {
                return true;
            }
        }
        let node = Node::new(TO_UPGRADE);
        let mut queues = self.queues.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        self.stamp_first_writer(state);
        loop {
            let blocked = readers(state) != 0;
            let next = if blocked { state | QUEUED } else { state - UPGRADABLE + WRITER };
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if blocked => break,
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        // SAFETY: the node stays until it was granted, or has left by `leave`.
        unsafe { queues.upgraders.push_front(&node) };
        drop(queues);
        if node.park(WaitReason::RwLockWrite, self.address(), deadline) == GRANTED {
            return true;
        }
        self.leave(&node, |queues| &mut queues.upgraders);
        false
    }

    /// Takes a node that gave up out of its queue, and lets in whom it kept waiting.
    fn leave(&self, node: &Node, queue: impl FnOnce(&mut Queues) -> &mut Queue) {
        let mut queues = self.queues.lock();
        queue(&mut queues).remove(node);
        self.served(&queues, false);
        let granted = self.grant(&mut queues);
        drop(queues);
        granted.ready_all();
    }

    /// What reports know this lock by.
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}
