//! Where waits are added up, by stack: a hash table that any thread adds to without a lock, also while it
//! holds a lock of the runtime. Its size is fixed; stacks that find no place are added up together.
//!
//! - B1. A bucket is taken by setting its hash, from 0, once and for all. The frames are written after
//!   that, by the thread that took it, and `ready` is set last, with Release.
//! - B2. Two stacks with the same hash share a bucket. The hash has 64 bits, so the error is negligible.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::diag::dump::unwind::MAX_FRAMES;
use crate::sys::mem;

/// Buckets of a table: 18 MiB of addresses, of which only what is used takes memory.
const BUCKETS: usize = 1 << 15;
/// A stack looks at this many places.
const PROBES: usize = 256;
/// Counts are kept in units of one part in this many, because a sample may stand for two and a half waits.
const PARTS: f64 = 1024.0;

struct Bucket {
    hash: AtomicU64,
    /// How often, in [`PARTS`], and for how long (ns).
    count: AtomicU64,
    nanos: AtomicU64,
    length: AtomicU32,
    ready: AtomicBool,
    frames: [AtomicUsize; MAX_FRAMES],
}

pub(super) struct Buckets {
    all: OnceLock<&'static [Bucket]>,
    /// What found no place.
    lost_count: AtomicU64,
    lost_nanos: AtomicU64,
}

impl Buckets {
    pub(super) const fn new() -> Buckets {
        Buckets { all: OnceLock::new(), lost_count: AtomicU64::new(0), lost_nanos: AtomicU64::new(0) }
    }

    /// Gets the memory, unless the table has it.
    pub(super) fn fill(&self) -> io::Result<()> {
        if self.all.get().is_none() {
            let buckets = mem::reserve(BUCKETS * size_of::<Bucket>())? as *const Bucket;
            // SAFETY: the mapping is new, zeroed (a valid state), large enough, and never unmapped.
            let buckets = unsafe { std::slice::from_raw_parts(buckets, BUCKETS) };
            let _another_thread_was_faster = self.all.set(buckets);
        }
        Ok(())
    }

    /// Adds waits to a stack.
    pub(super) fn add(&self, frames: &[usize], count: f64, nanos: f64) {
        let (count, nanos) = ((count * PARTS) as u64, nanos as u64);
        let (to_count, to_nanos) = match self.find(frames) {
            Some(bucket) => (&bucket.count, &bucket.nanos),
            None => (&self.lost_count, &self.lost_nanos),
        };
        to_count.fetch_add(count, Ordering::Relaxed);
        to_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn find(&self, frames: &[usize]) -> Option<&'static Bucket> {
        let all = *self.all.get()?;
        let mix = |hash: u64, &frame: &usize| {
            (hash ^ frame as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        };
        let hash = frames.iter().fold(frames.len() as u64, mix) | 1;
        let first = (hash >> 32) as usize;
        for probe in 0..PROBES {
            let bucket = &all[(first + probe) % BUCKETS];
            match bucket.hash.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let frames = &frames[..frames.len().min(MAX_FRAMES)];
                    for (place, &frame) in bucket.frames.iter().zip(frames) {
                        place.store(frame, Ordering::Relaxed);
                    }
                    bucket.length.store(frames.len() as u32, Ordering::Relaxed);
                    bucket.ready.store(true, Ordering::Release); // B1
                    return Some(bucket);
                }
                Err(other) if other == hash => return Some(bucket),
                Err(_) => {}
            }
        }
        None
    }

    /// Passes each stack with its number and time (ns) to `take`; `None` is what found no place.
    pub(super) fn each(&self, mut take: impl FnMut(Option<Box<[usize]>>, i64, i64)) {
        let count = |parts: &AtomicU64| (parts.load(Ordering::Relaxed) as f64 / PARTS).round() as i64;
        let nanos = |nanos: &AtomicU64| nanos.load(Ordering::Relaxed) as i64;
        // Acquire pairs with the Release of B1.
        let ready = |bucket: &&Bucket| bucket.ready.load(Ordering::Acquire);
        for bucket in self.all.get().copied().unwrap_or(&[]).iter().filter(ready) {
            let frames = &bucket.frames[..bucket.length.load(Ordering::Relaxed) as usize];
            let frames = frames.iter().map(|frame| frame.load(Ordering::Relaxed)).collect();
            take(Some(frames), count(&bucket.count), nanos(&bucket.nanos));
        }
        if self.lost_count.load(Ordering::Relaxed) != 0 {
            take(None, count(&self.lost_count), nanos(&self.lost_nanos));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_many_threads_are_added_up_and_a_full_table_loses_none() {
        let buckets = Buckets::new();
        buckets.fill().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..40_000).for_each(|n| buckets.add(&[n / 4, 7, n % 3], 0.5, 3.0)));
            }
        });
        let (mut stacks, mut lost, mut nanos, mut counts) = (0, 0, 0, 0);
        buckets.each(|frames, count, time| {
            match frames {
                Some(frames) => {
                    assert_eq!((frames.len(), frames[1]), (3, 7));
                    stacks += 1;
                }
                None => lost += 1,
            }
            nanos += time;
            counts += count;
        });
        assert_eq!((nanos, lost <= 1), (480_000, true));
        assert!((75_000..=85_000).contains(&counts), "{counts}");
        assert!(stacks > 25_000 && stacks <= BUCKETS, "{stacks}");
    }
}
