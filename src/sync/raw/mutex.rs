//! The mutex itself: two words and a queue of parked waiters.
//!
//! The mutex has two modes, much as in Go.
//! - Normal mode: an unlock frees the lock and wakes one waiter, which competes with new contenders. A
//!   running goroutine may take the lock many times before the woken waiter runs. This makes a busy mutex
//!   fast.
//! - Starving mode: the next unlock hands the lock to the first waiter, and that hand-over ends the mode. A
//!   waiter turns the mode on if it was woken, lost the race, and has waited for more than a millisecond. It
//!   goes back to the front of the queue, so the next unlock serves it.
//!
//! Go stays in its starving mode until it serves a waiter that has waited for less than a millisecond. With a
//! queue so long that every waiter waits longer, Go never leaves the mode, and each turn costs a switch.
//!
//! `owner` is 0 while the lock is free. Otherwise it is the holder's mark (see `holder/mark.rs`). The holder
//! may change it without any lock.
//!
//! `flags`:
//! - CONTENDED: some goroutine has had to wait for this mutex. Never cleared.
//! - QUEUED: the queue is not empty. Changes only under the queue's lock.
//! - WOKEN: one party is awake and will look at the lock again: a woken waiter, an unlocker that is about to
//!   wake one, or a contender that spins. An unlock need not wake another waiter.
//! - STARVING: the next unlock hands the lock over. Changes only under the queue's lock.
//!
//! Invariants:
//! 1. WOKEN has one owner. The owner clears WOKEN after it has taken the lock, or when it queues. If it
//!    queues, it clears WOKEN before its last look at `owner`.
//! 2. STARVING implies QUEUED and excludes WOKEN. The owner of WOKEN sets STARVING in the step that clears
//!    WOKEN, and nobody sets WOKEN while STARVING is set.
//!
//! Why no wake-up is lost, once all threads see CONTENDED. A waiter sets QUEUED (and clears WOKEN if it owns
//! it), then loads `owner`. An unlock clears `owner`, then loads `flags`. All four accesses are SeqCst. So
//! one of these holds:
//! - The waiter sees that the lock is free, and starts over.
//! - The unlock sees QUEUED, and does not see the waiter's WOKEN. If WOKEN is clear, the unlock wakes a
//!   waiter. If WOKEN is set, another party owns it. That party takes the lock, and its own unlock looks at
//!   the queue; or it queues, and then looks at `owner`.
//!
//! An unlock that sees the lock taken again does nothing: the unlock of the new holder looks at the queue. A
//! waiter that gives up owns no WOKEN while it is queued, so nobody relied on it.
//!
//! Most mutexes are never contended, so an unlock without CONTENDED is a plain store. It clears `owner` and
//! loads `flags` with no fence between the two, so it may see old flags. The first waiter pays for this. It
//! sets CONTENDED, makes all threads of the process pass a barrier (`heavy_fence`: some microseconds, once in
//! the life of a mutex), and loads `owner` again. Each unlock falls into one of two cases:
//! - Its last load of `flags` came before the barrier. Then its store to `owner` also came before the
//!   barrier. The first waiter finds the lock free and takes it, or finds a holder that took it since.
//! - Its last load of `flags` sees CONTENDED. Then it executes the fence that it left out, and looks for
//!   QUEUED as described above.
//!
//! Other waiters may have seen CONTENDED and parked meanwhile. In both cases a later unlock sees QUEUED and
//! serves them. (Where the kernel has no such barrier, `light_fence` is a real fence.)
//!
//! Orderings: taking the lock is Acquire and pairs with the Release of the unlock. In a hand-over the
//! unlocker never releases `owner`; its `ready` makes its writes visible to the waiter.

use std::time::Instant;

use super::spin::Spin;
use super::starvation::StarvationClock;
use super::waitq::{Claimed, GRANTED, Node, Queue, RETRY, Unlinked};
use crate::base::atomic::{AtomicU32, Ordering, fence, fence_after_seq_cst, heavy_fence, light_fence};
use crate::base::lock::Lock;
use crate::sched::word::status::WaitReason;
use crate::sync::holder::{self, StackPage};

const FREE: u32 = 0;

pub(in crate::sync) const CONTENDED: u32 = 1;
pub(in crate::sync) const QUEUED: u32 = 2;
const WOKEN: u32 = 4;
pub(in crate::sync) const STARVING: u32 = 8;

/// The lock under [`Mutex`](crate::sync::Mutex), for use with `lock_api`.
///
/// ```
/// use gort::sync::RawMutex;
/// let mutex = lock_api::Mutex::<RawMutex, _>::new(1);
/// assert_eq!(*mutex.lock(), 1);
/// ```
pub struct RawMutex {
    pub(in crate::sync) owner: AtomicU32,
    pub(in crate::sync) flags: AtomicU32,
    pub(in crate::sync) queue: Lock<Queue>,
}

impl RawMutex {
    #[inline]
    pub(in crate::sync) fn acquire(&self) {
        if !self.try_acquire() {
            let taken = self.acquire_slow(None, false);
            debug_assert!(taken, "without a deadline a wait ends with the lock");
        }
    }

    #[inline]
    #[must_use]
    pub(in crate::sync) fn try_acquire(&self) -> bool {
        // Acquire pairs with the Release of the unlock.
        self.owner.compare_exchange(FREE, holder::here(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Tries until the deadline, or forever if there is none.
    #[inline]
    #[must_use]
    pub(in crate::sync) fn acquire_until(&self, deadline: Option<Instant>) -> bool {
        self.try_acquire() || self.acquire_slow(deadline, false)
    }

    /// Frees the lock. The caller holds it.
    #[inline]
    pub(in crate::sync) fn release(&self) {
        if self.flags.load(Ordering::Relaxed) != 0 {
            return self.release_contended();
        }
        if self.owner.load(Ordering::Relaxed) == FREE {
            not_held();
        }
        // Release pairs with the Acquire of the next holder.
        self.owner.store(FREE, Ordering::Release);
        light_fence();
        if self.flags.load(Ordering::Relaxed) != 0 {
            // The first waiter's barrier may have hit this thread before the store above, so the store needs
            // its own fence.
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
    pub(in crate::sync) fn release_fair(&self) {
        if self.flags.load(Ordering::Relaxed) & QUEUED == 0 || !self.hand_over() {
            self.release();
        }
    }

    /// Whether the lock is held.
    pub(in crate::sync) fn is_held(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != FREE
    }

    /// A page of the holder's stack. `None` if the lock is free, or if its new holder has not run since the
    /// hand-over.
    pub(in crate::sync) fn holder(&self) -> Option<StackPage> {
        StackPage::of_mark(self.owner.load(Ordering::Relaxed))
    }

    /// Queues a waiter that comes from another queue and now wants the lock. If the lock is free, returns the
    /// waiter to the caller instead. A queued waiter wakes with the claim `GRANTED` (it holds the lock and
    /// must call `acquire_granted`) or `RETRY` (it must call `acquire_woken`).
    pub(in crate::sync) fn requeue(&self, waiter: Unlinked) -> Option<Unlinked> {
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

    /// Takes the lock. The caller was requeued and then woken with `RETRY`, so it owns WOKEN.
    pub(in crate::sync) fn acquire_woken(&self) {
        self.acquire_slow(None, true);
    }

    /// Replaces the mark of the hand-over by the caller's own. The caller was queued, and an unlock has
    /// handed it the lock.
    pub(in crate::sync) fn acquire_granted(&self) {
        debug_assert!(self.is_held());
        self.owner.store(holder::here(), Ordering::Relaxed);
    }

    #[cold]
    fn acquire_slow(&self, deadline: Option<Instant>, mut woken: bool) -> bool {
        let mut clock = StarvationClock::new();
        let mut spin = Spin::new();
        // `woken`: we own WOKEN. `again`: we have been in the queue before.
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
                // If others are queued, tell the unlocker not to wake one of them: we are already awake.
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
            clock.start();
            let starving = woken && clock.is_starving();
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

    /// Makes all unlocks see CONTENDED. Called by the first waiter, which must look at `owner` again
    /// afterwards.
    #[cold]
    fn announce_contention(&self) {
        self.flags.fetch_or(CONTENDED, Ordering::SeqCst);
        heavy_fence();
    }

    /// Sets and clears flags for a waiter that is about to queue, then checks that the lock is still held. If
    /// it is not, the waiter must not queue. The caller holds the queue's lock.
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

    /// Queues the node, and clears WOKEN if the caller owns it. Returns false if the lock has become free;
    /// WOKEN is cleared in that case too.
    fn enqueue(&self, node: &Node, woken: bool, starving: bool, front: bool) -> bool {
        let mut queue = self.queue.lock();
        let set = if starving { QUEUED | STARVING } else { QUEUED };
        if !self.is_held_for_sure(&queue, set, if woken { WOKEN } else { 0 }) {
            return false;
        }
        // SAFETY: the caller parks next. It does not return before a waker has granted it the lock or woken
        // it, or it has left the queue by `leave`.
        unsafe {
            if front {
                queue.push_front(node.link());
            } else {
                queue.push_back(node.link());
            }
        }
        true
    }

    /// Removes the node of a waiter that gave up.
    fn leave(&self, node: &Node) {
        let mut queue = self.queue.lock();
        // SAFETY: the node is alive, and if it is linked then here.
        if unsafe { queue.remove(node.link()) } && queue.is_empty() {
            self.flags.fetch_and(!(QUEUED | STARVING), Ordering::Relaxed);
        }
    }

    /// Wakes a waiter after the caller has freed the lock, unless nobody is queued or another party is awake.
    fn look_at_queue(&self) {
        let mut flags = self.flags.load(Ordering::SeqCst);
        loop {
            if flags & QUEUED == 0 || flags & WOKEN != 0 {
                return;
            }
            fence_after_seq_cst();
            if self.owner.load(Ordering::SeqCst) != FREE {
                return; // the new holder's unlock will look at the queue
            }
            if flags & STARVING != 0 {
                // The mode changed after the caller had looked: take the lock again, to hand it over.
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

    /// Wakes the first waiter and makes it the owner of WOKEN, which the caller owns.
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

    /// Hands the caller's lock to the first waiter, and ends the starving mode. Returns false if nobody
    /// waits.
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

    /// The address by which reports identify this lock.
    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

#[cold]
#[inline(never)]
fn not_held() -> ! {
    panic!("unlock of an unlocked mutex");
}
