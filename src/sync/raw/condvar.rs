//! The condition variable itself: a queue of waiters.
//!
//! A waiter queues before it unlocks the mutex, so a notification that follows a change made under that mutex
//! finds the waiter. Waiters are served in the order of their arrival. None wakes up without a notification
//! or its deadline.
//!
//! A notifier often holds the mutex. A waiter that ran at once would find the mutex held and park again. So
//! the notifier moves the waiter to the queue of the mutex without waking it, and the unlock wakes it. The
//! notifier moves only waiters that have no deadline, because nothing else may end a wait while its node is
//! between two queues. The claim tells a waiter from which queue it was woken: `NOTIFIED` (from this one: it
//! must lock the mutex), or one of the mutex's own claims.

use std::time::Instant;

use super::mutex::RawMutex;
use super::waitq::{Claimed, ClaimedList, GRANTED, NOTIFIED, Node, Queue, RETRY, Unlinked};
use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::lock::Lock;
use crate::sched::word::status::WaitReason;

/// The tag of a waiter with a deadline, which cannot be moved. The tag of any other waiter is the address of
/// its mutex.
const STAYS: usize = 0;

pub(in crate::sync) struct RawCondvar {
    /// 1 while the queue is not empty, else 0. Changes only under the queue's lock.
    pub(in crate::sync) waiting: AtomicU32,
    pub(in crate::sync) queue: Lock<Queue>,
}

impl RawCondvar {
    /// Unlocks the mutex, which the caller holds, waits, and locks it again. Returns false if the deadline
    /// passed.
    pub(in crate::sync) fn wait(&self, mutex: &RawMutex, deadline: Option<Instant>) -> bool {
        let node = Node::new(if deadline.is_none() { std::ptr::from_ref(mutex) as usize } else { STAYS });
        let mut queue = self.queue.lock();
        // SAFETY: we keep the node until a waker has claimed and readied it, or we have removed it below.
        // Without a deadline we keep it until it is readied; moving the node relies on this.
        unsafe { queue.push_back(node.link()) };
        self.waiting.store(1, Ordering::Relaxed);
        drop(queue);
        mutex.release();
        match node.park(WaitReason::Condvar, std::ptr::from_ref(self) as usize, deadline) {
            NOTIFIED => mutex.acquire(),
            GRANTED => mutex.acquire_granted(),
            RETRY => mutex.acquire_woken(),
            _ => {
                let mut queue = self.queue.lock();
                // SAFETY: the node is ours, and if it is linked then here.
                unsafe { queue.remove(node.link()) };
                self.note_waiting(&queue);
                drop(queue);
                mutex.acquire();
                return false;
            }
        }
        true
    }

    pub(in crate::sync) fn notify_one(&self) -> bool {
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
                // SAFETY: the waiter has no deadline, so it cannot give up.
                Some(mutex) => break unsafe { queue.unlink_front() }.map(|waiter| Next::Move(waiter, mutex)),
            }
        };
        self.note_waiting(&queue);
        drop(queue);
        next.map(Next::go).is_some()
    }

    pub(in crate::sync) fn notify_all(&self) -> usize {
        if !self.anybody_waits() {
            return 0;
        }
        let mut queue = self.queue.lock();
        let mut ready = ClaimedList::new();
        // This queue needs no lock: only we know its nodes, and their owners cannot give up.
        let mut moving = Queue::new();
        let mut moved = 0;
        while let Some(tag) = queue.front_tag() {
            if tag == STAYS {
                if let Some(claimed) = queue.claim_front(NOTIFIED) {
                    ready.push(claimed);
                }
            // SAFETY: the waiter has no deadline, so it cannot give up.
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
            // SAFETY: the waiter has no deadline, so it cannot give up.
            if let Some(waiter) = unsafe { moving.unlink_front() } {
                Next::Move(waiter, mutex).go();
            }
        }
        notified
    }

    /// Whether the queue may be non-empty. Relaxed is enough: a waiter sets `waiting` before it unlocks the
    /// mutex. A notifier has locked that mutex afterwards, or has changed nothing that the waiter had not
    /// seen.
    fn anybody_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    fn note_waiting(&self, queue: &Queue) {
        self.waiting.store(u32::from(!queue.is_empty()), Ordering::Relaxed);
    }
}

/// A waiter that was notified.
enum Next {
    /// The waiter is woken and locks the mutex itself.
    Ready(Claimed),
    /// The waiter is moved to the queue of the mutex at this address.
    Move(Unlinked, usize),
}

impl Next {
    fn go(self) {
        match self {
            Next::Ready(claimed) => claimed.ready(),
            Next::Move(waiter, mutex) => {
                // SAFETY: the waiter borrows the mutex until it is readied. Nobody can ready it before
                // `requeue` has released the lock of the mutex's queue, and that release is the last access
                // of `requeue` to the mutex.
                let mutex = unsafe { &*(mutex as *const RawMutex) };
                if let Some(waiter) = mutex.requeue(waiter) {
                    waiter.claim(NOTIFIED).ready();
                }
            }
        }
    }
}
