//! The condition variable itself: a queue.
//!
//! A waiter queues before it unlocks the mutex, so a notification that follows a change made under that mutex
//! finds it. Waiters are served in the order in which they came, and none wakes up without a notification or
//! its deadline.
//!
//! A notification is often given under the mutex. A waiter that ran at once would find it held and park
//! again. So it is moved to the queue of the mutex instead, without being woken, and the unlock wakes it. That
//! is done only with waiters that have no deadline: nobody else may end the wait of one that is between two
//! queues. The claim with which a waiter wakes up tells it where it was: `NOTIFIED` (lock the mutex), or one
//! of the mutex's own.

use std::time::Instant;

use super::raw_mutex::RawMutex;
use super::waitq::{Claimed, ClaimedList, GRANTED, NOTIFIED, Node, Queue, RETRY, Unlinked};
use crate::atomic::{AtomicU32, Ordering};
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;

/// The tag of a waiter with a deadline; others have the address of their mutex.
const STAYS: usize = 0;

pub(super) struct RawCondvar {
    /// 1 while somebody is queued. Changes under the queue's lock.
    pub(super) waiting: AtomicU32,
    pub(super) queue: Lock<Queue>,
}

impl RawCondvar {
    /// Unlocks the mutex, which the caller holds, waits, and locks it again. False if the time was over.
    pub(super) fn wait(&self, mutex: &RawMutex, deadline: Option<Instant>) -> bool {
        let node = Node::new(if deadline.is_none() { std::ptr::from_ref(mutex) as usize } else { STAYS });
        let mut queue = self.queue.lock();
        // SAFETY: the node stays until it was claimed and readied, or has been removed below. Without a
        // deadline it stays until it was readied, which is what moving it relies on.
        unsafe { queue.push_back(&node) };
        self.waiting.store(1, Ordering::Relaxed);
        drop(queue);
        mutex.release();
        match node.park(WaitReason::Condvar, std::ptr::from_ref(self) as usize, deadline) {
            NOTIFIED => mutex.acquire(),
            GRANTED => mutex.acquire_granted(),
            RETRY => mutex.acquire_woken(),
            _ => {
                let mut queue = self.queue.lock();
                queue.remove(&node);
                self.note_waiting(&queue);
                drop(queue);
                mutex.acquire();
                return false;
            }
        }
        true
    }

    pub(super) fn notify_one(&self) -> bool {
        if !self.anybody_waits() {
            return false;
        }
        let mut queue = self.queue.lock();
        let next = loop {
            match queue.front_tag() {
                None => break None,
                Some(STAYS) => {
                    if let Some(claimed) = queue.claim_front(NOTIFIED) {
                        break Some(Next::Ready(claimed));
                    }
                }
                // SAFETY: without a deadline, so it cannot give up.
                Some(mutex) => break unsafe { queue.unlink_front() }.map(|waiter| Next::Move(waiter, mutex)),
            }
        };
        self.note_waiting(&queue);
        drop(queue);
        next.map(Next::go).is_some()
    }

    pub(super) fn notify_all(&self) -> usize {
        if !self.anybody_waits() {
            return 0;
        }
        let mut queue = self.queue.lock();
        let mut ready = ClaimedList::new();
        // Ours alone: nobody else knows these nodes, and their owners cannot give up.
        let mut moving = Queue::new();
        let mut moved = 0;
        while let Some(tag) = queue.front_tag() {
            if tag == STAYS {
                if let Some(claimed) = queue.claim_front(NOTIFIED) {
                    ready.push(claimed);
                }
            // SAFETY: without a deadline, so it cannot give up.
            } else if let Some(waiter) = unsafe { queue.unlink_front() } {
                moving.push_unlinked(waiter);
                moved += 1;
            }
        }
        self.note_waiting(&queue);
        drop(queue);
        let notified = ready.len() + moved;
        ready.ready_all();
        while let Some(mutex) = moving.front_tag() {
            // SAFETY: as above.
            if let Some(waiter) = unsafe { moving.unlink_front() } {
                Next::Move(waiter, mutex).go();
            }
        }
        notified
    }

    /// Relaxed: a waiter says so before it unlocks the mutex, and a notifier has locked that mutex after (or
    /// has changed nothing that the waiter did not see).
    fn anybody_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    fn note_waiting(&self, queue: &Queue) {
        self.waiting.store(u32::from(!queue.is_empty()), Ordering::Relaxed);
    }
}

/// Somebody who was notified.
enum Next {
    /// It will lock the mutex itself.
    Ready(Claimed),
    /// It can be moved to the queue of the mutex, whose address this is.
    Move(Unlinked, usize),
}

impl Next {
    fn go(self) {
        match self {
            Next::Ready(claimed) => claimed.ready(),
            Next::Move(waiter, mutex) => {
                // SAFETY: the waiter borrows the mutex until it was readied. Nobody can do that before
                // `requeue` has released the lock of the mutex's queue, its last access to the mutex.
                let mutex = unsafe { &*(mutex as *const RawMutex) };
                if let Some(waiter) = mutex.requeue(waiter) {
                    waiter.claim(NOTIFIED).ready();
                }
            }
        }
    }
}
