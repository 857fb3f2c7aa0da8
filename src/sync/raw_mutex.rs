//! The mutex itself: one word and a queue of parked waiters.
//!
//! Two modes, much as in Go. In the normal mode an unlock frees the lock and wakes one waiter, which competes
//! with whoever comes along: a running goroutine may take the lock many times before the woken one gets to
//! run, which is what makes a busy mutex fast. A waiter that loses such a race after having waited for more
//! than a millisecond turns the mutex to the starving mode: the next unlock hands the lock over to it, and
//! nobody may overtake. That ends the starving mode. (Go stays in it until a waiter is served that had waited
//! for less; with a queue so long that everybody waits longer, that is for ever, and each turn costs a
//! switch.) A waiter that loses goes back to the front of the queue, so it is served after one more unlock
//! at most.
//!
//! The word:
//! - LOCKED: somebody holds it.
//! - QUEUED: the queue is not empty. Changes only under the queue's lock.
//! - WOKEN: somebody is awake and will look at the lock again (a waiter that was woken, an unlocker about to
//!   wake one, or a contender that spins). An unlock need not wake another one.
//! - STARVING: the lock may only be handed over. Changes only under the queue's lock.
//!
//! Invariants:
//! 1. WOKEN has one owner. It gives it up when it takes the lock or, while LOCKED or STARVING is set, when it
//!    queues.
//! 2. STARVING implies QUEUED, and excludes WOKEN: it is set by the owner of WOKEN, in the same step that
//!    gives WOKEN up, and while it is set nobody sets WOKEN.
//! 3. LOCKED clear and STARVING set: an unlocker is on its way to hand the lock over (or whoever gets to the
//!    queue's lock first does it). Nobody else changes LOCKED then.
//!
//! Why no wake-up is lost. A waiter queues, under the queue's lock, by a step of the word that found LOCKED
//! or STARVING set and leaves QUEUED set and its own WOKEN clear. If it found LOCKED, the unlock that clears
//! LOCKED comes later in the word's order, hence sees QUEUED: it then either wakes or hands over, or sees
//! WOKEN. The owner of WOKEN in turn takes the lock (and its unlock looks at the queue again) or queues,
//! which by the same rule found LOCKED or STARVING set after WOKEN was clear. If it found STARVING without
//! LOCKED, the hand-over under the queue's lock comes after it and finds it in the queue. A waiter that gives
//! up holds no WOKEN while it is queued, so nobody relied on it.
//!
//! Orderings: taking the lock is Acquire and pairs with the Release of the unlock; all steps between are
//! read-modify-writes, so the release sequence is unbroken. A hand-over reads with Acquire what the unlocker
//! released and passes it on by `ready`.

use std::time::Instant;

use super::holder::Holder;
use super::patience::Patience;
use super::spin::Spin;
use super::waitq::{GRANTED, Node, Queue, RETRY, Unlinked};
use crate::atomic::{AtomicU32, Ordering};
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;

pub(super) const LOCKED: u32 = 1;
pub(super) const QUEUED: u32 = 2;
const WOKEN: u32 = 4;
pub(super) const STARVING: u32 = 8;

/// The lock under [`Mutex`](super::Mutex), for use with `lock_api`.
///
/// ```
/// use gort::sync::RawMutex;
/// let mutex = lock_api::Mutex::<RawMutex, _>::new(1);
/// assert_eq!(*mutex.lock(), 1);
/// ```
pub struct RawMutex {
    pub(super) state: AtomicU32,
    pub(super) holder: Holder,
    pub(super) queue: Lock<Queue>,
}

/// Whether a contender may take the lock.
fn is_free(state: u32) -> bool {
    state & (LOCKED | STARVING) == 0
}

impl RawMutex {
    #[inline]
    pub(super) fn acquire(&self) {
        // Acquire pairs with the Release in `release`, here and in all other places that take the lock.
        if self.state.compare_exchange_weak(0, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            let taken = self.acquire_slow(None, false);
            debug_assert!(taken, "without a deadline a wait ends with the lock");
        }
        self.holder.mark();
    }

    #[inline]
    #[must_use]
    pub(super) fn try_acquire(&self) -> bool {
        let mut state = 0;
        loop {
            match self.state.compare_exchange(state, state | LOCKED, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    self.holder.mark();
                    return true;
                }
                Err(now) if is_free(now) => state = now,
                Err(_) => return false,
            }
        }
    }

    /// Tries until the deadline, or for ever if there is none.
    #[inline]
    #[must_use]
    pub(super) fn acquire_until(&self, deadline: Option<Instant>) -> bool {
        if self.state.compare_exchange_weak(0, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_err()
            && !self.acquire_slow(deadline, false)
        {
            return false;
        }
        self.holder.mark();
        true
    }

    /// Frees the lock. The caller holds it.
    #[inline]
    pub(super) fn release(&self) {
        // Release pairs with the Acquire of whoever takes the lock next.
        let before = self.state.fetch_sub(LOCKED, Ordering::Release);
        if before != LOCKED {
            self.release_slow(before);
        }
    }

    /// Hands the lock to the first waiter, if there is one. The caller holds it.
    pub(super) fn release_fair(&self) {
        if self.state.load(Ordering::Relaxed) & QUEUED != 0 {
            let mut queue = self.queue.lock();
            let next = queue.pop(GRANTED);
            let done = if queue.is_empty() { QUEUED | STARVING } else { STARVING };
            self.state.fetch_and(!done, Ordering::Relaxed);
            drop(queue);
            if let Some(next) = next {
                next.ready();
                return;
            }
        }
        self.release();
    }

    /// Whether it cannot be taken now.
    pub(super) fn is_held(&self) -> bool {
        !is_free(self.state.load(Ordering::Relaxed))
    }

    /// Queues somebody who waited elsewhere and now wants the lock, if it is held; if not, it comes back. The
    /// waiter ends up with a claim of `GRANTED` (the lock is its own) or `RETRY` (it must call
    /// `acquire_woken`).
    pub(super) fn requeue(&self, waiter: Unlinked) -> Option<Unlinked> {
        let mut queue = self.queue.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if is_free(state) {
                return Some(waiter);
            }
            let queued = state | QUEUED;
            match self.state.compare_exchange_weak(state, queued, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        queue.push_unlinked(waiter);
        None
    }

    /// Takes the lock. The caller was requeued and then woken with `RETRY`, so WOKEN is its own.
    pub(super) fn acquire_woken(&self) {
        self.acquire_slow(None, true);
        self.holder.mark();
    }

    /// The caller was requeued and then got the lock.
    pub(super) fn acquire_granted(&self) {
        debug_assert!(self.is_held());
        self.holder.mark();
    }

    #[cold]
    fn acquire_slow(&self, deadline: Option<Instant>, mut woken: bool) -> bool {
        let mut patience = Patience::new();
        let mut spin = Spin::new();
        // `woken` says whether WOKEN is ours, `again` that we have been in the queue.
        let mut again = woken;
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let mine = if woken { WOKEN } else { 0 };
            if is_free(state) {
                let taken = (state | LOCKED) & !mine;
                match self.state.compare_exchange_weak(state, taken, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return true,
                    Err(now) => state = now,
                }
                continue;
            }
            if state & STARVING == 0 && spin.once() {
                // With others queued, tell the unlocker not to wake one of them: we are here already.
                if !woken && state & (QUEUED | WOKEN) == QUEUED {
                    woken = self
                        .state
                        .compare_exchange_weak(state, state | WOKEN, Ordering::Relaxed, Ordering::Relaxed)
                        .is_ok();
                }
                state = self.state.load(Ordering::Relaxed);
                continue;
            }
            patience.start();
            let starving = again && patience.is_exhausted();
            let node = Node::new(0);
            if !self.enqueue(&node, mine, starving, again) {
                state = self.state.load(Ordering::Relaxed);
                continue;
            }
            match node.park(WaitReason::Mutex, self.address(), deadline) {
                GRANTED => return true,
                RETRY => {
                    woken = true;
                    again = true;
                    spin.reset();
                    state = self.state.load(Ordering::Relaxed);
                }
                _ => {
                    self.leave(&node);
                    return false;
                }
            }
        }
    }

    /// Queues the node, giving up `mine` (WOKEN, if the caller has it). False if the lock has become free.
    fn enqueue(&self, node: &Node, mine: u32, starving: bool, front: bool) -> bool {
        let mut queue = self.queue.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if is_free(state) {
                return false;
            }
            let queued = ((state | QUEUED) & !mine) | if starving { STARVING } else { 0 };
            match self.state.compare_exchange_weak(state, queued, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: the caller parks next and does not return before it was granted the lock, woken, or has left
        // the queue by `leave`.
        unsafe {
            if front {
                queue.push_front(node);
            } else {
                queue.push_back(node);
            }
        }
        true
    }

    /// Takes a node that gave up out of the queue.
    fn leave(&self, node: &Node) {
        let mut queue = self.queue.lock();
        if queue.remove(node) && queue.is_empty() {
            self.state.fetch_and(!(QUEUED | STARVING), Ordering::Relaxed);
        }
    }

    /// `before` is the word as it was before LOCKED was taken from it.
    #[cold]
    fn release_slow(&self, before: u32) {
        if before & LOCKED == 0 {
            // The subtraction wrapped. Put it back; the lock is as it was.
            self.state.fetch_add(LOCKED, Ordering::Relaxed);
            panic!("unlock of an unlocked mutex");
        }
        let mut state = before & !LOCKED;
        loop {
            if state & QUEUED == 0 || state & (LOCKED | WOKEN) != 0 {
                return;
            }
            if state & STARVING != 0 {
                return self.hand_over();
            }
            match self.state.compare_exchange_weak(state, state | WOKEN, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return self.wake_one(),
                Err(now) => state = now,
            }
        }
    }

    /// Passes the caller's WOKEN on to the first waiter.
    fn wake_one(&self) {
        let mut queue = self.queue.lock();
        let next = queue.pop(RETRY);
        let mut done = if queue.is_empty() { QUEUED } else { 0 };
        if next.is_none() {
            done |= WOKEN;
        }
        if done != 0 {
            self.state.fetch_and(!done, Ordering::Relaxed);
        }
        drop(queue);
        if let Some(next) = next {
            next.ready();
        }
    }

    /// Gives the lock, which is not LOCKED but kept from others by STARVING, to the first waiter.
    fn hand_over(&self) {
        let mut queue = self.queue.lock();
        let state = self.state.load(Ordering::Relaxed);
        if state & LOCKED != 0 || state & STARVING == 0 {
            return;
        }
        let next = queue.pop(GRANTED);
        let mut given = state & !STARVING;
        if next.is_some() {
            given |= LOCKED;
        }
        if queue.is_empty() {
            given &= !QUEUED;
        }
        // Acquire pairs with the Release of the unlock, which may have been another's; `ready` passes it on.
        let before = self.state.swap(given, Ordering::Acquire);
        debug_assert_eq!(before, state, "invariant 3");
        drop(queue);
        if let Some(next) = next {
            next.ready();
        }
    }

    /// What reports know this lock by.
    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}
