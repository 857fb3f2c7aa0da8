//! Releases the reader-writer lock and chooses which waiters get it next. `rwlock.rs` describes the word,
//! the queues and the invariants.

use super::rwlock::{
    QUEUED, Queues, READER, RawRwLock, SHARED_QUEUED, STARVING, TO_UPGRADE, UPGRADABLE, WOKEN, WRITER,
    WRITER_QUEUED, readers,
};
use super::starvation;
use super::waitq::{Claimed, ClaimedList, GRANTED, RETRY};
use crate::base::atomic::Ordering;
use crate::sync::holder::reads;

/// What a holder keeps when it gives up its lock.
#[derive(Clone, Copy)]
pub(in crate::sync) enum Keep {
    /// Nothing: the holder unlocks.
    Nothing = 0,
    /// A read lock: the holder downgrades.
    Shared = READER as isize,
    /// The upgradable lock: a writer downgrades.
    Upgradable = UPGRADABLE as isize,
}

/// Whether a release need not wake anybody, because only writers are queued and one of them is awake.
fn one_is_awake(state: u64) -> bool {
    state & (SHARED_QUEUED | STARVING | WOKEN) == WOKEN
}

impl RawRwLock {
    #[inline]
    pub(in crate::sync) fn release_shared(&self) {
        reads::remove(self.address());
        // Release pairs with the Acquire of the next writer.
        let after = self.state.fetch_sub(READER, Ordering::Release).wrapping_sub(READER);
        // As a signed number, `after` is small if no readers are left but some bits are set, and negative if
        // nobody held a read lock.
        if after != 0 && (after as i64) < READER as i64 {
            self.release_shared_slow(after);
        }
    }

    #[cold]
    fn release_shared_slow(&self, after: u64) {
        if (after as i64) < 0 {
            self.state.fetch_add(READER, Ordering::Relaxed);
            panic!("unlock of an RwLock that is not locked for reading");
        }
        if after & QUEUED != 0 && !one_is_awake(after) {
            let mut queues = self.queues.lock();
            let granted = self.grant(&mut queues);
            drop(queues);
            granted.ready_all();
        }
    }

    #[inline]
    pub(in crate::sync) fn release_exclusive(&self) {
        self.holder.clear();
        // Release pairs with the Acquire of the next holder.
        if self.state.compare_exchange(WRITER, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.release_exclusive_slow();
        }
    }

    #[cold]
    fn release_exclusive_slow(&self) {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            assert!(state & WRITER != 0, "unlock of an RwLock that is not locked for writing");
            let nobody_waits = state & QUEUED == 0;
            if !nobody_waits && !one_is_awake(state) {
                return self.pass_on(Keep::Nothing, false);
            }
            match self.state.compare_exchange_weak(
                state,
                state & !WRITER,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }

    /// Gives up the caller's write lock, except for what it keeps. With `fair`, hands the lock to the waiters
    /// that are next, so that nobody overtakes them.
    pub(in crate::sync) fn pass_on(&self, keep: Keep, fair: bool) {
        let mut queues = self.queues.lock();
        let granted = self.pass_on_locked(&mut queues, keep, fair);
        drop(queues);
        granted.ready_all();
    }

    /// `pass_on` under the queues' lock. The caller holds WRITER, for itself or on behalf of the queues.
    fn pass_on_locked(&self, queues: &mut Queues, keep: Keep, fair: bool) -> ClaimedList {
        // While we hold WRITER, others only add and take back false READERs, and set WOKEN or STARVING.
        let hand_over = fair || self.state.load(Ordering::Relaxed) & STARVING != 0;
        let mut ready = queues.readers.take_all(if hand_over { GRANTED } else { RETRY });
        let mut now_held = keep as u64;
        if hand_over {
            now_held += ready.len() as u64 * READER;
        }
        if !matches!(keep, Keep::Upgradable) {
            debug_assert_ne!(queues.upgraders.front_tag(), Some(TO_UPGRADE), "nobody has UPGRADABLE");
            if let Some(upgradable) = queues.upgraders.pop(GRANTED) {
                ready.push(upgradable);
                now_held += UPGRADABLE;
            }
        }
        if now_held != 0 || !ready.is_empty() {
            // Release pairs with the Acquire of the next holder.
            self.state.fetch_add(now_held.wrapping_sub(WRITER), Ordering::Release);
            self.served(queues, false);
            return ready;
        }
        if !hand_over {
            return self.free_and_wake_writer(queues).into();
        }
        let writer = queues.writers.pop(GRANTED);
        if writer.is_none() {
            self.state.fetch_and(!WRITER, Ordering::Release);
        }
        self.served(queues, true);
        writer.into()
    }

    /// Frees the lock and wakes a writer, which competes for it. The caller holds WRITER.
    fn free_and_wake_writer(&self, queues: &mut Queues) -> Option<Claimed> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let freed = (state & !WRITER) | WOKEN;
            match self.state.compare_exchange_weak(state, freed, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        if state & WOKEN != 0 {
            self.served(queues, false);
            return None;
        }
        self.wake_writer(queues)
    }

    /// Wakes the first writer and makes it the owner of WOKEN, which the caller owns.
    fn wake_writer(&self, queues: &mut Queues) -> Option<Claimed> {
        let writer = queues.writers.pop(RETRY);
        if writer.is_none() {
            self.state.fetch_and(!WOKEN, Ordering::Relaxed);
        }
        self.served(queues, false);
        writer
    }

    pub(in crate::sync) fn release_upgradable(&self, keep: Keep) {
        self.holder.clear();
        let mut state = self.state.load(Ordering::Relaxed);
        while state & QUEUED == 0 {
            debug_assert!(state & UPGRADABLE != 0);
            match self.state.compare_exchange_weak(
                state,
                state - UPGRADABLE + keep as u64,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
        let mut queues = self.queues.lock();
        // Hand the upgradable lock directly to the next upgrader, so that nobody overtakes it; but queued
        // writers go first.
        let next = if queues.writers.is_empty() { queues.upgraders.pop(GRANTED) } else { None };
        if next.is_some() {
            if keep as u64 != 0 {
                self.state.fetch_add(keep as u64, Ordering::Relaxed);
            }
        } else {
            self.state.fetch_add((keep as u64).wrapping_sub(UPGRADABLE), Ordering::Release);
        }
        self.served(&queues, false);
        let mut granted = ClaimedList::from(next);
        granted.append(self.grant(&mut queues));
        drop(queues);
        granted.ready_all();
    }

    /// Grants the lock to the queued waiters that may have it now, or wakes them to compete. It is correct to
    /// call this at any time: if a holder keeps the waiters out, that holder's release will grant.
    pub(in crate::sync) fn grant(&self, queues: &mut Queues) -> ClaimedList {
        loop {
            // Acquire pairs with the Releases of earlier holders; `ready` passes their writes on to the
            // waiter.
            let state = self.state.load(Ordering::Acquire);
            if state & WRITER != 0 {
                return ClaimedList::new();
            }
            let done = if queues.upgraders.front_tag() == Some(TO_UPGRADE) {
                self.grant_upgrade(queues, state)
            } else if !queues.writers.is_empty() {
                self.grant_writer(queues, state)
            } else {
                Some(self.grant_shared(queues))
            };
            if let Some(granted) = done {
                return granted;
            }
        }
    }

    /// Grants the write lock to the upgradable reader that waits for it. `None`: the word has changed, look
    /// again.
    fn grant_upgrade(&self, queues: &mut Queues, state: u64) -> Option<ClaimedList> {
        if readers(state) != 0 {
            return Some(ClaimedList::new());
        }
        let to_writer = state - UPGRADABLE + WRITER;
        self.state.compare_exchange(state, to_writer, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let upgraded = queues.upgraders.claim_front(GRANTED);
        if upgraded.is_none() {
            // The waiter has given up: it keeps the upgradable lock.
            self.state.fetch_add(UPGRADABLE - WRITER, Ordering::Release);
        }
        self.served(queues, upgraded.is_some());
        Some(Some(upgraded?).into())
    }

    /// Wakes the first writer or, in the starving mode, hands it the lock. `None`: look again.
    fn grant_writer(&self, queues: &mut Queues, state: u64) -> Option<ClaimedList> {
        if readers(state) != 0 || state & UPGRADABLE != 0 {
            return Some(ClaimedList::new());
        }
        if state & STARVING == 0 {
            if state & WOKEN != 0 {
                return Some(ClaimedList::new());
            }
            self.state.compare_exchange(state, state | WOKEN, Ordering::Relaxed, Ordering::Relaxed).ok()?;
            return Some(Some(self.wake_writer(queues)?).into());
        }
        // Take the lock on behalf of the queue: from here on nobody else can take or release it.
        self.state.compare_exchange(state, state | WRITER, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let writer = queues.writers.pop(GRANTED);
        if writer.is_none() {
            return Some(self.pass_on_locked(queues, Keep::Nothing, false));
        }
        self.served(queues, true);
        Some(writer.into())
    }

    /// Grants the lock to all queued readers, and the upgradable lock to the first upgrader. No writer is
    /// queued.
    fn grant_shared(&self, queues: &mut Queues) -> ClaimedList {
        let mut granted = ClaimedList::new();
        if queues.bits() != 0 {
            // One READER on behalf of the queues keeps writers out. If a writer was faster, its release will
            // serve the queues.
            let before = self.state.fetch_add(READER, Ordering::Acquire);
            if before & WRITER == 0 {
                granted = queues.readers.take_all(GRANTED);
                self.state.fetch_add(granted.len() as u64 * READER, Ordering::Relaxed);
                while !queues.upgraders.is_empty() && self.set_upgradable() {
                    match queues.upgraders.pop(GRANTED) {
                        Some(upgradable) => granted.push(upgradable),
                        None => _ = self.state.fetch_and(!UPGRADABLE, Ordering::Relaxed),
                    }
                }
            }
            self.served(queues, false);
            self.state.fetch_sub(READER, Ordering::Release);
        }
        granted
    }

    /// Takes the upgradable lock on behalf of the queue. Returns false if it is held. The caller's READER
    /// keeps WRITER from being set.
    fn set_upgradable(&self) -> bool {
        // Acquire pairs with the Release of the last upgradable reader.
        self.state.fetch_or(UPGRADABLE, Ordering::Acquire) & UPGRADABLE == 0
    }

    /// Clears the bits that are no longer true after a waiter has left the queues. `writer`: a writer was
    /// handed the lock.
    pub(in crate::sync) fn served(&self, queues: &Queues, writer: bool) {
        let bits = queues.bits();
        let mut gone = QUEUED & !bits;
        if bits & WRITER_QUEUED == 0 {
            gone |= STARVING;
        } else if writer {
            gone |= STARVING;
            self.writer_since.store(starvation::stamp(), Ordering::Relaxed);
        }
        if self.state.load(Ordering::Relaxed) & gone != 0 {
            self.state.fetch_and(!gone, Ordering::Relaxed);
        }
    }
}
