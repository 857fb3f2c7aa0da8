//! The futex table: the queues of those that wait on futex words.
//!
//! **No wake-up is lost.** A waiter adds itself to the count of its bucket (F1), takes the lock of the
//! bucket, reads the futex word (F2), and goes away if the word is not what its caller expects; otherwise it
//! queues and releases the lock. The program changes the word (F3) before it calls wake, which reads the
//! count (F4) and, if that is not 0, takes the lock and looks through the queue. Fences separate F1 from F2
//! and F3 from F4. Either F4 sees the waiter's F1: then wake takes the lock, before F2, which then sees F3,
//! or after the waiter has queued, and finds it. Or F4 comes before F1: then F2 sees F3. The kernel's queues
//! work the same way, so a thread that waits there is safe, too.
//!
//! Loom's models of this file are in `loom/src/transparent/models.rs`.

use crate::base::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use crate::base::lock::Lock;
use crate::sched::park::wait::FIRST_FREE_CLAIM;
use crate::sched::park::wait_queue::{ClaimedList, Node, Queue};
use crate::transparent::who::place::uninterrupted;

/// The claim of a wait that a wake-up has ended.
pub(super) const WOKEN: usize = FIRST_FREE_CLAIM;

/// What a waiter waits for.
pub(super) struct Entry {
    /// Changed under the locks of both buckets, by a requeue.
    address: AtomicUsize,
    /// A wake-up with a bit in common ends the wait.
    bitset: u32,
}

impl Entry {
    pub(super) fn new(address: usize, bitset: u32) -> Entry {
        Entry { address: AtomicUsize::new(address), bitset }
    }

    fn address(&self) -> usize {
        self.address.load(Ordering::Relaxed)
    }
}

/// Addresses that share a bucket share its lock. A cache line each, so that others' locks do not disturb.
#[repr(align(64))]
pub(super) struct Bucket {
    /// Waiters that are in the queue, or about to be.
    pub(super) count: AtomicUsize,
    pub(super) queue: Lock<Queue<Entry>>,
}

/// Builds a [`Bucket`]. It is a macro because a static needs a constant expression, and loom's atomics have
/// no const constructor.
macro_rules! new_bucket {
    () => {{
        use $crate::base::atomic::AtomicUsize;
        use $crate::base::lock::Lock;
        use $crate::sched::park::wait_queue::Queue;
        $crate::transparent::futex::table::Bucket {
            count: AtomicUsize::new(0),
            queue: Lock::new(Queue::new()),
        }
    }};
}
pub(super) use new_bucket;

/// `BUCKETS` is a power of two.
pub(super) struct Table<const BUCKETS: usize> {
    pub(super) buckets: [Bucket; BUCKETS],
}

/// How many waiters a requeue has woken and moved.
pub(super) struct Requeued {
    pub(super) woken: usize,
    pub(super) moved: usize,
}

impl<const BUCKETS: usize> Table<BUCKETS> {
    fn bucket(&self, address: usize) -> &Bucket {
        // The multiplier is 2^64 divided by the golden ratio: neighbours get different buckets.
        let hash = (address as u64 >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.buckets[hash as usize % BUCKETS]
    }

    fn with_queue<R>(&self, address: usize, f: impl FnOnce(&mut Queue<Entry>) -> R) -> R {
        let bucket = self.bucket(address);
        uninterrupted(|| f(&mut bucket.queue.lock_inside()))
    }

    /// Queues the node if the futex word holds `expected`. If it did not, nothing has changed.
    ///
    /// # Safety
    /// The node's address is that of `word`. Its owner does not leave before [`leave`](Table::leave).
    #[inline(never)]
    pub(super) unsafe fn enter(&self, node: &Node<Entry>, word: &AtomicU32, expected: u32) -> bool {
        let address = node.data.address();
        let count = &self.bucket(address).count;
        count.fetch_add(1, Ordering::SeqCst); // F1
        fence(Ordering::SeqCst);
        let queued = self.with_queue(address, |queue| {
            let as_expected = word.load(Ordering::SeqCst) == expected; // F2
            if as_expected {
                // SAFETY: in no queue yet; the caller's promise.
                unsafe { queue.push_back(node) };
            }
            as_expected
        });
        if !queued {
            count.fetch_sub(1, Ordering::SeqCst);
        }
        queued
    }

    /// Called by the owner of a node that was queued, when its wait is over.
    #[inline(never)]
    pub(super) fn leave(&self, node: &Node<Entry>) {
        loop {
            let address = node.data.address();
            let left = self.with_queue(address, |queue| {
                // A requeue may have moved it meanwhile.
                let still_there = node.data.address() == address;
                if still_there {
                    // SAFETY: if linked, then in the queue of its address.
                    unsafe { queue.remove(node) };
                }
                still_there
            });
            if left {
                self.bucket(address).count.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        }
    }

    /// As [`leave`](Table::leave), after a wake-up: the waker took the node out of its queue.
    pub(super) fn leave_woken(&self, node: &Node<Entry>) {
        self.bucket(node.data.address()).count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a wake-up has to look for waiters. The program has changed the futex word before (F3).
    pub(super) fn may_have_waiters(&self, address: usize) -> bool {
        fence(Ordering::SeqCst);
        self.bucket(address).count.load(Ordering::SeqCst) != 0 // F4
    }

    /// Claims the first `most` waiters at `address` whose bitset has a bit of `bitset`.
    pub(super) fn claim(&self, address: usize, most: usize, bitset: u32) -> ClaimedList<Entry> {
        self.with_queue(address, |queue| claim_from(queue, address, most, bitset))
    }

    /// Claims all waiters of all addresses, bucket by bucket.
    pub(super) fn claim_all(&self) -> impl Iterator<Item = ClaimedList<Entry>> {
        let used = self.buckets.iter().filter(|bucket| bucket.count.load(Ordering::SeqCst) != 0);
        used.map(|bucket| uninterrupted(|| bucket.queue.lock_inside().take_all(WOKEN)))
    }

    /// If the word holds `expected`, claims the first `wake` waiters at `from` and moves at most `most`
    /// others to `to`. `None`: it holds something else.
    pub(super) fn requeue(
        &self,
        (from, word): (usize, &AtomicU32),
        to: usize,
        (wake, most): (usize, usize),
        expected: Option<u32>,
    ) -> Option<(ClaimedList<Entry>, Requeued)> {
        fence(Ordering::SeqCst);
        let (source, target) = (self.bucket(from), self.bucket(to));
        let move_from = |queue: &mut Queue<Entry>, mut other: Option<&mut Queue<Entry>>| {
            if expected.is_some_and(|expected| word.load(Ordering::SeqCst) != expected) {
                return None;
            }
            let claimed = claim_from(queue, from, wake, u32::MAX);
            let mut moved = 0;
            // To the same word, no node has to move; what is moved is counted all the same.
            let most = if to == from { 0 } else { most };
            while moved < most
                && let Some(node) = queue.find(|node| node.data.address() == from)
            {
                // SAFETY: linked, hence alive while the lock is held; it goes from one queue to the other.
                // Its owner looks at the address again before it takes it out.
                unsafe {
                    queue.remove(node);
                    (*node).data.address.store(to, Ordering::Relaxed);
                    other.as_deref_mut().unwrap_or(queue).push_back(node);
                }
                moved += 1;
            }
            source.count.fetch_sub(moved, Ordering::SeqCst);
            target.count.fetch_add(moved, Ordering::SeqCst);
            let woken = claimed.len();
            Some((claimed, Requeued { woken, moved }))
        };
        uninterrupted(|| {
            if std::ptr::eq(source, target) {
                return move_from(&mut source.queue.lock_inside(), None);
            }
            // In the order of the addresses, so that no two requeues wait for each other.
            if std::ptr::from_ref(source) < std::ptr::from_ref(target) {
                let mut first = source.queue.lock_inside();
                let mut second = target.queue.lock_inside_beside(&first);
                move_from(&mut first, Some(&mut second))
            } else {
                let mut first = target.queue.lock_inside();
                let mut second = source.queue.lock_inside_beside(&first);
                move_from(&mut second, Some(&mut first))
            }
        })
    }
}

fn claim_from(queue: &mut Queue<Entry>, address: usize, most: usize, bitset: u32) -> ClaimedList<Entry> {
    let mut claimed = ClaimedList::new();
    let matches = |node: &Node<Entry>| node.data.address() == address && node.data.bitset & bitset != 0;
    while claimed.len() < most
        && let Some(waiter) = queue.pop_if(matches, |_| WOKEN)
    {
        claimed.push(waiter);
    }
    claimed
}
