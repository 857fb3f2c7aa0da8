//! Waiting for the reader-writer lock: spinning, joining a queue, giving up. `rwlock.rs` describes the word
//! and the rules, `rwlock_grant.rs` releases the lock and chooses the next holders.

use std::time::Instant;

use super::rwlock::{
    BLOCKS_UPGRADABLE, QUEUED, Queues, READER, RawRwLock, SHARED_QUEUED, STARVING, TO_READ_UPGRADABLY,
    TO_UPGRADE, UPGRADABLE, WOKEN, WRITER, WRITER_QUEUED, is_free, readers,
};
use super::spin::Spin;
use super::starvation::{self, StarvationClock};
use super::waitq::{GRANTED, Node, Queue, RETRY};
use crate::base::atomic::Ordering;
use crate::sched::word::status::WaitReason;

impl RawRwLock {
    /// Waits for a read lock. The caller has added its READER to the word, which was `before`.
    #[cold]
    pub(super) fn acquire_shared_slow(
        &self,
        before: u64,
        blocked_by: u64,
        deadline: Option<Instant>,
    ) -> bool {
        if before & blocked_by == 0 && readers(before) == 0 {
            // No reader was inside: the last one to leave has called `grant` for the writers.
            return true;
        }
        let mut clock = StarvationClock::new();
        let mut spin = Spin::new();
        let mut again = false;
        loop {
            // Acquire pairs with the Release of a writer that has just left.
            let state = self.state.load(Ordering::Acquire);
            if state & blocked_by == 0 {
                if !self.should_wait(blocked_by, state) {
                    return true;
                }
                // If this fails, the next iteration looks again.
                let starving = state | STARVING;
                let _ = self.state.compare_exchange(state, starving, Ordering::Relaxed, Ordering::Relaxed);
                continue;
            }
            // Do not spin while others are queued: our false count would be in their way.
            if state & QUEUED == 0 && spin.once() {
                continue;
            }
            clock.start();
            let starving = if again && clock.is_starving() { STARVING } else { 0 };
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

    /// Takes the caller's false count back and queues the node. Returns false if nothing blocks the caller
    /// any more: then its count is true, and it is inside.
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
        // SAFETY: the caller keeps the node until a waker has granted the lock or woken it, or `leave` has
        // removed the node.
        unsafe { queues.readers.push_back(node.link()) };
        // Our false count may have been the last thing that a writer waited for.
        let granted = self.grant(&mut queues);
        drop(queues);
        granted.ready_all();
        true
    }

    #[cold]
    pub(super) fn acquire_exclusive_slow(&self, deadline: Option<Instant>) -> bool {
        let mut clock = StarvationClock::new();
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
            clock.start();
            let starving = if again && clock.is_starving() { STARVING } else { 0 };
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

    /// If no writer is queued yet, records that the first one begins to wait now. The caller holds the
    /// queues' lock and then sets WRITER_QUEUED with Release, so a reader that sees the bit sees this stamp.
    fn stamp_first_writer(&self, state: u64) {
        if state & WRITER_QUEUED == 0 {
            self.writer_since.store(starvation::stamp(), Ordering::Relaxed);
        }
    }

    /// Queues a writer, and clears `mine` (WOKEN, if the caller owns it). Returns false if the lock has
    /// become free.
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
        // SAFETY: the caller keeps the node until a waker has granted the lock or woken it, or `leave` has
        // removed the node.
        unsafe {
            if front {
                queues.writers.push_front(node.link());
            } else {
                queues.writers.push_back(node.link());
            }
        }
        // Perhaps nobody holds the lock, and only STARVING kept us out.
        let granted = self.grant(&mut queues);
        drop(queues);
        granted.ready_all();
        true
    }

    #[cold]
    pub(super) fn acquire_upgradable_slow(&self, deadline: Option<Instant>) -> bool {
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
        // SAFETY: we keep the node until a waker has granted the lock, or `leave` has removed the node.
        unsafe { queues.upgraders.push_back(node.link()) };
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
    pub(super) fn upgrade_slow(&self, deadline: Option<Instant>) -> bool {
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
        // SAFETY: we keep the node until a waker has granted the lock, or `leave` has removed the node.
        unsafe { queues.upgraders.push_front(node.link()) };
        drop(queues);
        if node.park(WaitReason::RwLockWrite, self.address(), deadline) == GRANTED {
            return true;
        }
        self.leave(&node, |queues| &mut queues.upgraders);
        false
    }

    /// Removes the node of a waiter that gave up, and grants the lock to waiters that only it kept out.
    fn leave(&self, node: &Node, queue: impl FnOnce(&mut Queues) -> &mut Queue) {
        let mut queues = self.queues.lock();
        // SAFETY: the node is alive, and if it is linked then in the queue that the caller names.
        unsafe { queue(&mut queues).remove(node.link()) };
        self.served(&queues, false);
        let granted = self.grant(&mut queues);
        drop(queues);
        granted.ready_all();
    }
}
