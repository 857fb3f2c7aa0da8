//! The mutex itself: two words and a queue of parked waiters.
//!
//! Two modes, much as in Go. In the normal mode an unlock frees the lock and wakes one waiter, which competes
//! with whoever comes along: a running goroutine may take the lock many times before the woken one gets to
//! run, which is what makes a busy mutex fast. A waiter that loses such a race after having waited for more
//! than a millisecond turns the mutex to the starving mode: the next unlock hands the lock over to the first
//! waiter. That ends the starving mode. (Go stays in it until a waiter is served that had waited for less; with a
//! queue so long that everybody waits longer, that is for ever, and each turn costs a switch.) A waiter that
//! loses goes back to the front of the queue, so it is served after one more unlock at most.
//!
//! `owner`: 0, free. Otherwise held; by whom, `holder.rs` says. Who holds it changes it without asking anybody.
//!
//! `flags`:
//! - CONTENDED: somebody had to wait once. Never cleared.
//! - QUEUED: the queue is not empty. Changes only under the queue's lock.
//! - WOKEN: somebody is awake and will look at the lock again (a waiter that was woken, an unlocker about to
//!   wake one, or a contender that spins). An unlock need not wake another one.
//! - STARVING: the next unlock hands the lock over. Changes only under the queue's lock.
//!
//! Invariants:
//! 1. WOKEN has one owner. It gives it up when it has taken the lock or, before it looks at `owner` for the last
//!    time, when it queues.
//! 2. STARVING implies QUEUED, and excludes WOKEN: it is set by the owner of WOKEN, in the same step that
//!    gives WOKEN up, and while it is set nobody sets WOKEN.
//!
//! Why no wake-up is lost, once CONTENDED is known to all. A waiter sets QUEUED (and gives its WOKEN up) and then looks
//! at `owner`; an unlock clears `owner` and then looks at `flags`; all of it SeqCst. So either the waiter sees that the lock
//! is free, and starts over; or the unlock sees QUEUED without that WOKEN: then it wakes, or sees WOKEN of somebody else.
//! That one takes the lock (and its unlock looks again) or queues, and looks at `owner` after. An unlock that sees the
//! lock taken again leaves the rest to the one that took it. A waiter that gives up holds no WOKEN while it is queued, so
//! nobody relied on it.
//!
//! Most mutexes are never contended, so their unlock is a plain store: without CONTENDED it clears `owner` and looks at
//! `flags` without a fence between, and may see them as they were. The first who has to wait pays for this. It sets
//! CONTENDED, makes all threads of the process pass a barrier (`heavy_fence`, some microseconds, once in the life of a mutex),
//! and looks at `owner` again. An unlock whose last look at `flags` came before the barrier has cleared `owner` before it, too:
//! then the first waiter finds the lock free and takes it, or finds somebody in it who took it since. Any other unlock sees CONTENDED
//! at its last look, and makes up for the fence that it left out before it looks for QUEUED, as above. In either case an unlock that
//! sees QUEUED follows, for others who saw CONTENDED and parked meanwhile.
//! (Where the kernel has no such barrier, `light_fence` is a fence.)
//!
//! Orderings: taking the lock is Acquire and pairs with the Release of the unlock. A hand-over stays with who does it
//! until `ready` passes it on.

use std::time::Instant;

use super::holder::{self, StackPage};
use super::patience::Patience;
use super::spin::Spin;
use super::waitq::{Claimed, GRANTED, Node, Queue, RETRY, Unlinked};
use crate::atomic::{AtomicU32, Ordering, fence, fence_after_seq_cst, heavy_fence, light_fence};
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;

const FREE: u32 = 0;

pub(super) const CONTENDED: u32 = 1;
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
    pub(super) owner: AtomicU32,
    pub(super) flags: AtomicU32,
    pub(super) queue: Lock<Queue>,
}

impl RawMutex {
    #[inline]
    pub(super) fn acquire(&self) {
        if !self.try_acquire() {
            let taken = self.acquire_slow(None, false);
            debug_assert!(taken, "without a deadline a wait ends with the lock");
        }
    }

    #[inline]
    #[must_use]
    pub(super) fn try_acquire(&self) -> bool {
        // Acquire pairs with the Release of the unlock.
        self.owner.compare_exchange(FREE, holder::here(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Tries until the deadline, or for ever if there is none.
    #[inline]
    #[must_use]
    pub(super) fn acquire_until(&self, deadline: Option<Instant>) -> bool {
        self.try_acquire() || self.acquire_slow(deadline, false)
    }

    /// Frees the lock. The caller holds it.
    #[inline]
    pub(super) fn release(&self) {
        if self.flags.load(Ordering::Relaxed) != 0 {
            return self.release_contended();
        }
        if self.owner.load(Ordering::Relaxed) == FREE {
            not_held();
        }
        // Release pairs with the Acquire of whoever takes the lock next.
        self.owner.store(FREE, Ordering::Release);
        light_fence();
        if self.flags.load(Ordering::Relaxed) != 0 {
            // The barrier may have come before the store.
            fence(Ordering::SeqCst);
            self.look_at_queue();
        }
    }

    #[inline(never)]
    fn release_contended(&self) {
        if self.flags.load(Ordering::Relaxed) & STARVING != 0 && self.hand_over() {
            return;
        }
        if self.owner.swap(FREE, Ordering::SeqCst) == FREE {
            not_held();
        }
        fence_after_seq_cst();
        self.look_at_queue();
    }

    /// Hands the lock to the first waiter, if there is one. The caller holds it.
    pub(super) fn release_fair(&self) {
        if self.flags.load(Ordering::Relaxed) & QUEUED == 0 || !self.hand_over() {
            self.release();
        }
    }

    /// Whether somebody holds it.
    pub(super) fn is_held(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != FREE
    }

    /// Where the stack of its holder is, if there is one that runs or has run since it got the lock.
    pub(super) fn holder(&self) -> Option<StackPage> {
        StackPage::of_mark(self.owner.load(Ordering::Relaxed))
    }

    /// Queues somebody who waited elsewhere and now wants the lock, if it is held; if not, it comes back. The
    /// waiter ends up with a claim of `GRANTED` (the lock is its own, and it must call `acquire_granted`) or `RETRY` (it
    /// must call `acquire_woken`).
    pub(super) fn requeue(&self, waiter: Unlinked) -> Option<Unlinked> {
        if self.flags.load(Ordering::Relaxed) & CONTENDED == 0 {
            self.announce_contention();
        }
        let mut queue = self.queue.lock();
        if !self.is_held_for_sure(&queue, QUEUED, 0) {
            return Some(waiter);
        }
        queue.push_unlinked(waiter);
        None
    }

    /// Takes the lock. The caller was requeued and then woken with `RETRY`, so WOKEN is its own.
    pub(super) fn acquire_woken(&self) {
        self.acquire_slow(None, true);
    }

    /// The caller was queued and then got the lock.
    pub(super) fn acquire_granted(&self) {
        debug_assert!(self.is_held());
        self.owner.store(holder::here(), Ordering::Relaxed);
    }

    #[cold]
    fn acquire_slow(&self, deadline: Option<Instant>, mut woken: bool) -> bool {
        let mut patience = Patience::new();
        let mut spin = Spin::new();
        // `woken` says whether WOKEN is ours, `again` that we have been in the queue.
        let mut again = woken;
        loop {
            if self.owner.load(Ordering::Relaxed) == FREE {
                if self.try_acquire() {
                    if woken {
                        self.flags.fetch_and(!WOKEN, Ordering::Relaxed);
                    }
                    return true;
                }
                continue;
            }
            let flags = self.flags.load(Ordering::Relaxed);
            if flags & STARVING == 0 && spin.once() {
                // With others queued, tell the unlocker not to wake one of them: we are here already.
                if !woken && flags & (QUEUED | WOKEN) == QUEUED {
                    let (now, ok) = (flags | WOKEN, Ordering::Relaxed);
                    woken = self.flags.compare_exchange_weak(flags, now, ok, ok).is_ok();
                }
                continue;
            }
            if flags & CONTENDED == 0 {
                self.announce_contention();
                continue;
            }
            patience.start();
            let starving = woken && patience.is_exhausted();
            let node = Node::new(0);
            if !self.enqueue(&node, woken, starving, again) {
                woken = false;
                continue;
            }
            match node.park(WaitReason::Mutex, self.address(), deadline) {
                GRANTED => {
                    self.acquire_granted();
                    return true;
                }
                RETRY => {
                    woken = true;
                    again = true;
                    spin.reset();
                }
                _ => {
                    self.leave(&node);
                    return false;
                }
            }
        }
    }

    /// The caller has to wait, the first ever to do so. It must look at `owner` once more.
    #[cold]
    fn announce_contention(&self) {
        self.flags.fetch_or(CONTENDED, Ordering::SeqCst);
        heavy_fence();
    }

    /// Under the queue's lock: sets and clears flags for somebody who wants to queue, and looks whether the lock is still
    /// held. If not, nobody queues.
    fn is_held_for_sure(&self, queue: &Queue, set: u32, clear: u32) -> bool {
        let (ok, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        let changed = |flags: u32| Some((flags | set) & !clear);
        let _ = self.flags.fetch_update(ok, failed, changed);
        fence_after_seq_cst();
        if self.owner.load(Ordering::SeqCst) != FREE {
            return true;
        }
        if queue.is_empty() {
            self.flags.fetch_and(!(QUEUED | STARVING), Ordering::Relaxed);
        }
        false
    }

    /// Queues the node, giving up WOKEN if that is the caller's. False if the lock has become free; WOKEN is given up then,
    /// too.
    fn enqueue(&self, node: &Node, woken: bool, starving: bool, front: bool) -> bool {
        let mut queue = self.queue.lock();
        let set = if starving { QUEUED | STARVING } else { QUEUED };
        if !self.is_held_for_sure(&queue, set, if woken { WOKEN } else { 0 }) {
            return false;
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
            self.flags.fetch_and(!(QUEUED | STARVING), Ordering::Relaxed);
        }
    }

    /// The caller has freed the lock: wakes a waiter if there is one and nobody else sees to it.
    fn look_at_queue(&self) {
        let mut flags = self.flags.load(Ordering::SeqCst);
        loop {
            if flags & QUEUED == 0 || flags & WOKEN != 0 {
                return;
            }
            fence_after_seq_cst();
            if self.owner.load(Ordering::SeqCst) != FREE {
                return; // its unlock will look
            }
            if flags & STARVING != 0 {
                // Since the caller looked: hand it over nevertheless.
                if self.try_acquire() {
                    self.release_contended();
                }
                return;
            }
            match self.flags.compare_exchange_weak(flags, flags | WOKEN, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return self.wake_one(),
                Err(now) => flags = now,
            }
        }
    }

    /// Passes the caller's WOKEN on to the first waiter.
    fn wake_one(&self) {
        let mut queue = self.queue.lock();
        let next = queue.pop(RETRY);
        let mut done = if queue.is_empty() { QUEUED | STARVING } else { 0 };
        if next.is_none() {
            done |= WOKEN;
        }
        if done != 0 {
            self.flags.fetch_and(!done, Ordering::Relaxed);
        }
        drop(queue);
        if let Some(next) = next {
            next.ready();
        }
    }

    /// Gives the lock, which the caller holds, to the first waiter. False if there is none. Ends the starving mode.
    fn hand_over(&self) -> bool {
        let mut queue = self.queue.lock();
        let next = queue.pop(GRANTED);
        let done = if queue.is_empty() { QUEUED | STARVING } else { STARVING };
        self.flags.fetch_and(!done, Ordering::Relaxed);
        if next.is_some() {
            self.owner.store(holder::SOMEBODY, Ordering::Relaxed);
        }
        drop(queue);
        next.map(Claimed::ready).is_some()
    }

    /// What reports know this lock by.
    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

#[cold]
#[inline(never)]
fn not_held() -> ! {
    panic!("unlock of an unlocked mutex");
}
