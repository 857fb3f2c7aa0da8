//! The event log of all threads that are not Ms: sysmon, the starter, the housekeeper, foreign threads. Ms
//! use it, too, where code does not know on which M it runs. A ring that any thread, and any signal handler,
//! appends to without a lock; one reader takes from it.

use std::io;
use std::sync::OnceLock;

use super::log::Place;
use super::record::{Kind, Record};
use crate::base::atomic::{AtomicUsize, OUTSIDE_RING as PLACES, Ordering};
use crate::sys::mem;

/// The ring. It is large because expiring timers end many waits at once, but memory is used only as far as
/// the reader falls behind.
pub(crate) struct Outside {
    pub(super) ring: OnceLock<&'static [Place]>,
    /// Everything below `tail` was reserved by a writer, everything below `head` was read. A place between
    /// them is written when its first word is not 0; the reader sets it to 0 again.
    pub(super) tail: AtomicUsize,
    pub(super) head: AtomicUsize,
}

impl Outside {
    /// Gets the memory, unless the ring has it.
    pub(super) fn fill(&self) -> io::Result<()> {
        if self.ring.get().is_none() {
            // SAFETY: all-zero bytes are places that were not written.
            let ring = unsafe { mem::zeroed_forever(PLACES) }?;
            let _another_thread_was_faster = self.ring.set(ring);
        }
        Ok(())
    }

    /// Appends `count` records, which nobody else's come between. False: there is no room, and nothing was
    /// written. If `records` has fewer, the rest is filled.
    pub(super) fn append(&self, count: usize, records: impl Iterator<Item = Record>) -> bool {
        let Some(ring) = self.ring.get() else { return false };
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            // Acquire pairs with the Release in `take`: the places are empty.
            let room = PLACES - tail.wrapping_sub(self.head.load(Ordering::Acquire)).min(PLACES);
            if count > room {
                return false;
            }
            match self.tail.compare_exchange_weak(
                tail,
                tail.wrapping_add(count),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => tail = now,
            }
        }
        let fill = std::iter::repeat(Record::new(Kind::Pad, 0, 0, 0));
        for (index, record) in records.chain(fill).take(count).enumerate() {
            ring[tail.wrapping_add(index) % PLACES].write(record);
        }
        true
    }

    /// For the reader: takes the oldest record, if it was written.
    pub(super) fn take(&self) -> Option<Record> {
        let ring = self.ring.get()?;
        let head = self.head.load(Ordering::Relaxed);
        if head == self.tail.load(Ordering::Relaxed) {
            return None;
        }
        let place = &ring[head % PLACES];
        let record = place.read()?;
        place.first.store(0, Ordering::Relaxed);
        self.head.store(head.wrapping_add(1), Ordering::Release);
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::event::Logs;

    #[test]
    fn records_of_many_threads_arrive_whole_and_a_full_ring_refuses() {
        let outside = Logs::new(0).outside;
        outside.fill().unwrap();
        let three = |value| (0..3).map(move |n| Record::new(Kind::Log, n, 7, value));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let outside = &outside;
                scope.spawn(move || {
                    for n in 0..5_000 {
                        assert!(outside.append(3, three(thread << 32 | n)));
                    }
                });
            }
        });
        let mut next = [0; 4];
        for _ in 0..20_000 {
            let [a, b, c] = [0, 1, 2].map(|_| outside.take().unwrap());
            assert_eq!([a.extra(), b.extra(), c.extra()], [0, 1, 2]);
            assert!(a.second == b.second && b.second == c.second);
            let thread = (a.second >> 32) as usize;
            assert_eq!(a.second & 0xffff_ffff, next[thread]);
            next[thread] += 1;
        }
        assert_eq!(outside.take(), None);
        let fits = (0..PLACES).take_while(|_| outside.append(1, three(1))).count();
        assert_eq!((fits, outside.append(1, three(1))), (PLACES, false));
        outside.take().unwrap();
        assert!(outside.append(1, three(1)));
    }
}
