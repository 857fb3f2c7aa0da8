//! [`Pool`]: keeps values that are expensive to make, for the next caller that needs one.
//!
//! The pool has one shard for each core, rounded up to a power of two; the number of a P selects its shard. A
//! shard is a slot for one value and, behind it, a small stack under a runtime lock. A caller uses the shard
//! of the P it runs on and looks into the others only when that one is empty, so there is hardly ever
//! contention. The common pattern, to take one value and put it back, is two atomic steps on the slot.
//! Nothing is allocated, freed or dropped under the locks: a caller allocates a shard's memory before it
//! takes the lock, and drops a value that does not fit after it has released the lock.
//!
//! Go's pool keeps a value until the second garbage collection after its `Put`. Rust has no garbage
//! collection, so each shard keeps a fixed number of values at most.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use super::once_lock::OnceLock;
use super::slot::Slot;
use crate::base::lock::{Lock, Rank, Ranked};

/// The number of values that a shard's stack keeps at most, besides the one in its slot.
const KEEP: usize = 32;

/// A stock of reusable values, like Go's `sync.Pool`.
///
/// `get` returns a value that was put before, or a new one; which of these is not specified. The pool may
/// drop a value at any time. It does not reset values: do that before `put` or after `get`.
///
/// ```
/// use gort::sync::Pool;
/// static BUFFERS: Pool<Vec<u8>> = Pool::new(|| Vec::with_capacity(4096));
///
/// let mut buffer = BUFFERS.get();
/// buffer.extend_from_slice(b"some bytes");
/// buffer.clear();
/// BUFFERS.put(buffer);
/// assert!(BUFFERS.get().capacity() >= 4096);
/// ```
pub struct Pool<T, F = fn() -> T> {
    new: F,
    shards: OnceLock<Box<[CachePadded<Shard<T>>]>>,
}

/// The items of a shard.
impl<T> Ranked for Vec<T> {
    const RANK: Rank = Rank::Alone;
}

struct Shard<T> {
    slot: Slot<T>,
    /// Never grows: its capacity is 0 or `KEEP`.
    items: Lock<Vec<T>>,
    /// The length of `items`, for callers that look for a shard to take from. Written under the lock.
    len: AtomicUsize,
}

impl<T, F: Fn() -> T> Pool<T, F> {
    /// An empty pool. `get` calls `new` when there is no value to reuse.
    pub const fn new(new: F) -> Pool<T, F> {
        Pool { new, shards: OnceLock::new() }
    }

    /// A value that was put before, or else a new one.
    #[inline]
    pub fn get(&self) -> T {
        self.take().unwrap_or_else(&self.new)
    }
}

impl<T, F> Pool<T, F> {
    /// A value that was put before, if there is one.
    #[inline]
    pub fn take(&self) -> Option<T> {
        let shards = self.shards.get()?;
        let home = home(shards);
        shards[home].pop().or_else(|| shards[home + 1..].iter().chain(&shards[..home]).find_map(|s| s.pop()))
    }

    /// Keeps a value for later.
    #[inline]
    pub fn put(&self, value: T) {
        let shards = self.shards.get_or_init(Shard::make_all);
        shards[home(shards)].push(value);
    }

    /// Drops all values that the pool keeps.
    pub fn clear(&self) {
        for shard in self.shards.get().into_iter().flatten() {
            drop(shard.slot.take());
            drop(shard.take_items());
        }
    }
}

impl<T> Shard<T> {
    /// Makes all shards: at least one for each core, and a power of two.
    fn make_all() -> Box<[CachePadded<Shard<T>>]> {
        let count = std::thread::available_parallelism().map_or(1, usize::from).next_power_of_two();
        (0..count)
            .map(|_| {
                CachePadded::new(Shard {
                    slot: Slot::new(),
                    items: Lock::new(Vec::new()),
                    len: AtomicUsize::new(0),
                })
            })
            .collect()
    }

    #[inline]
    fn pop(&self) -> Option<T> {
        self.slot.take().or_else(|| self.pop_item())
    }

    fn pop_item(&self) -> Option<T> {
        // The length is a hint: this may miss a value that is being put right now.
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut items = self.items.lock();
        let item = items.pop();
        self.len.store(items.len(), Ordering::Relaxed);
        item
    }

    #[inline]
    fn push(&self, value: T) {
        if let Some(value) = self.slot.put(value) {
            self.push_item(value);
        }
    }

    fn push_item(&self, value: T) {
        let rest = self.try_push(value).and_then(|value| {
            self.give_memory();
            self.try_push(value)
        });
        drop(rest);
    }

    /// Returns the value if there is no room for it.
    fn try_push(&self, value: T) -> Option<T> {
        let mut items = self.items.lock();
        let room = items.capacity().min(KEEP);
        if items.len() == room {
            return Some(value);
        }
        items.push(value);
        self.len.store(items.len(), Ordering::Relaxed);
        None
    }

    fn give_memory(&self) {
        if self.len.load(Ordering::Relaxed) != 0 {
            return;
        }
        let mut memory = Vec::with_capacity(KEEP);
        let mut items = self.items.lock();
        if items.capacity() == 0 {
            std::mem::swap(&mut *items, &mut memory);
        }
        drop(items);
    }

    fn take_items(&self) -> Vec<T> {
        let mut items = self.items.lock();
        self.len.store(0, Ordering::Relaxed);
        std::mem::take(&mut *items)
    }
}

/// The index of the caller's own shard.
#[inline]
fn home<T>(shards: &[CachePadded<Shard<T>>]) -> usize {
    // The number of shards is a power of two.
    shard_hint() & (shards.len() - 1)
}

/// The number of the caller's P. On a foreign thread, an arbitrary number that stays the same for that
/// thread.
fn shard_hint() -> usize {
    if let Some(p) = crate::sched::types::current::current_p() {
        return p;
    }
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    MINE.try_with(|mine| *mine).unwrap_or(0)
}

impl<T, F> RefUnwindSafe for Pool<T, F> {}
impl<T, F> UnwindSafe for Pool<T, F> {}

impl<T, F> fmt::Debug for Pool<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shards = self.shards.get().into_iter().flatten();
        let kept: usize =
            shards.map(|shard| usize::from(shard.slot.is_full()) + shard.len.load(Ordering::Relaxed)).sum();
        f.debug_struct("Pool").field("kept", &kept).finish_non_exhaustive()
    }
}
