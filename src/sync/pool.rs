//! [`Pool`]: things that are expensive to make, kept for the next one who needs one.
//!
//! One shard per P, each a slot for one value and behind it a small stack under a runtime lock. A caller uses
//! the shard of the P it runs on and looks into the others only when that is empty, so there is hardly ever
//! contention; and the common pattern, one taken and the same put back, is two atomic steps on the slot.
//! Nothing is allocated, freed or dropped under the locks: a shard's memory is made before its lock is taken,
//! and what does not fit is dropped after.
//!
//! Go's pool keeps what is put until the second garbage collection after. There is none here, so each shard
//! keeps a fixed number at most.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use super::once_lock::OnceLock;
use super::slot::Slot;
use crate::sched::lock::Lock;

/// How many each shard keeps.
const KEEP: usize = 32;

/// A stock of reusable values, as Go's `sync.Pool`.
///
/// `get` gives one that was put before, or a new one; which of them is not specified, and what is put may
/// vanish at any time. Values are kept as they were put: reset them before or after.
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

struct Shard<T> {
    slot: Slot<T>,
    /// Never grows: its capacity is 0 or `KEEP`.
    items: Lock<Vec<T>>,
    /// The length of `items`, for those who look for a shard to take from. Written under the lock.
    len: AtomicUsize,
}

impl<T, F: Fn() -> T> Pool<T, F> {
    /// An empty pool; `new` makes a value when there is none.
    pub const fn new(new: F) -> Pool<T, F> {
        Pool { new, shards: OnceLock::new() }
    }

    /// A value that was put, or else a new one.
    #[inline]
    pub fn get(&self) -> T {
        self.take().unwrap_or_else(&self.new)
    }
}

impl<T, F> Pool<T, F> {
    /// A value that was put, if there is one.
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

    /// Drops all that is kept.
    pub fn clear(&self) {
        for shard in self.shards.get().into_iter().flatten() {
            drop(shard.slot.take());
            drop(shard.take_items());
        }
    }
}

impl<T> Shard<T> {
    /// A power of two, at least one for each core.
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
        // A hint: a value that is being put right now may be missed.
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

    /// The value comes back if there is no room.
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

/// The shard of the caller.
#[inline]
fn home<T>(shards: &[CachePadded<Shard<T>>]) -> usize {
    // There are a power of two of them.
    shard_hint() & (shards.len() - 1)
}

/// Which shard is near: the number of the caller's P, or for a foreign thread some number that stays the same.
fn shard_hint() -> usize {
    if let Some(p) = crate::sched::section::current_p() {
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
