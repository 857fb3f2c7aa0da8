//! The fork deques that a P has handed out: goroutines take and give back places, and thieves find the places
//! in use.
//!
//! A goroutine takes a place at its outermost `join` from the table of the P that it runs on, and gives it
//! back when that `join` ends, on whatever P it is by then. All steps are atomic operations, so they need no
//! runtime section.
//!
//! - The places are in chunks. Chunks are linked into the table and never freed, so a thief may look at any
//!   place at any time. A place that is not in use is empty.
//! - The bit of a place in `Chunk::in_use` belongs to the goroutine that has set it.

use std::ptr;

use super::fork_deque::{ForkDeque, Stolen};
use crate::base::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::base::owner_cell::OwnerUsize;

/// Places in a chunk (of some 9 kB): enough for the goroutines that fork at one time on a P in most programs.
const CHUNK: usize = 16;

/// A fork, as the deques know it: what the pointer leads to is the matter of `goroutine/fork/`.
pub(crate) enum Fork {}

/// A deque and its owner.
#[repr(C)]
pub(crate) struct ForkPlace {
    deque: ForkDeque<Fork>,
    /// The address of the goroutine that has it or had it last, or 0.
    owner: OwnerUsize,
    chunk: AtomicPtr<Chunk>,
    bit: u32,
}

struct Chunk {
    /// One bit for each place.
    in_use: AtomicU32,
    older: AtomicPtr<Chunk>,
    places: [ForkPlace; CHUNK],
}

pub(crate) struct ForkTable {
    newest: AtomicPtr<Chunk>,
}

impl ForkTable {
    pub(crate) fn new() -> ForkTable {
        ForkTable { newest: AtomicPtr::new(ptr::null_mut()) }
    }

    fn chunks(&self) -> impl Iterator<Item = &'static Chunk> {
        // SAFETY: chunks are never freed. Acquire pairs with the Release in `add_chunk`.
        let at = |link: &AtomicPtr<Chunk>| unsafe { link.load(Ordering::Acquire).as_ref() };
        std::iter::successors(at(&self.newest), move |chunk| at(&chunk.older))
    }

    /// Takes a place for the goroutine at that address. May allocate.
    pub(crate) fn take(&self, owner: usize) -> &'static ForkPlace {
        let place = match self.chunks().find_map(Chunk::take) {
            Some(place) => place,
            None => self.add_chunk(),
        };
        place.owner.set(owner);
        place
    }

    /// Adds a chunk, and returns its first place, which is the caller's.
    #[cold]
    fn add_chunk(&self) -> &'static ForkPlace {
        let chunk: &'static Chunk = Box::leak(Box::new(Chunk {
            in_use: AtomicU32::new(1),
            older: AtomicPtr::new(ptr::null_mut()),
            places: std::array::from_fn(|number| ForkPlace {
                deque: ForkDeque::new(),
                owner: OwnerUsize::new(0),
                chunk: AtomicPtr::new(ptr::null_mut()),
                bit: 1 << number,
            }),
        }));
        let address = ptr::from_ref(chunk).cast_mut();
        chunk.places.iter().for_each(|place| place.chunk.store(address, Ordering::Relaxed));
        let mut older = self.newest.load(Ordering::Relaxed);
        loop {
            chunk.older.store(older, Ordering::Relaxed);
            // Release: a thread that finds the chunk sees what is in it.
            match self.newest.compare_exchange(older, address, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return &chunk.places[0],
                Err(newer) => older = newer,
            }
        }
    }

    /// The places in use whose deque is not empty, in each chunk from `start` on; may be out of date at once.
    pub(crate) fn pending(&self, start: usize) -> impl Iterator<Item = &'static ForkPlace> {
        self.chunks()
            .flat_map(move |chunk| {
                // SeqCst: a look at the queues of the idle protocol (S2).
                let in_use = chunk.in_use.load(Ordering::SeqCst);
                let order = (0..CHUNK).map(move |number| (start + number) % CHUNK);
                let order = order.take(if in_use == 0 { 0 } else { CHUNK });
                order.filter(move |number| in_use & 1 << number != 0).map(|number| &chunk.places[number])
            })
            .filter(|place| !place.deque.is_empty())
    }
}

impl Chunk {
    fn take(&'static self) -> Option<&'static ForkPlace> {
        let mut in_use = self.in_use.load(Ordering::Relaxed);
        loop {
            let number = in_use.trailing_ones() as usize;
            let place = self.places.get(number)?;
            // Acquire pairs with the Release in `give_back`: the owner before has left the deque empty.
            let taken = in_use | place.bit;
            match self.in_use.compare_exchange_weak(in_use, taken, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Some(place),
                Err(other) => in_use = other,
            }
        }
    }
}

impl ForkPlace {
    /// For its owner: the deque.
    #[inline(always)]
    pub(crate) fn deque(&self) -> &ForkDeque<Fork> {
        &self.deque
    }

    pub(crate) fn steal(&self) -> Stolen<Fork> {
        self.deque.steal()
    }

    /// The address of the goroutine that has it, or had it last.
    pub(crate) fn owner(&self) -> usize {
        self.owner.get()
    }

    /// Gives the place back. Its deque is empty.
    pub(crate) fn give_back(&self) {
        debug_assert!(self.deque.is_empty());
        // SAFETY: chunks are never freed, and the pointer was set before the chunk was published.
        let chunk = unsafe { &*self.chunk.load(Ordering::Relaxed) };
        chunk.in_use.fetch_and(!self.bit, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Fork, ForkTable};
    use std::ptr;

    #[test]
    fn places_are_given_out_once_and_used_again() {
        let table = ForkTable::new();
        let places: Vec<_> = (1..=2 * CHUNK).map(|owner| table.take(owner)).collect();
        assert_eq!(table.chunks().count(), 2);
        assert!(places.iter().enumerate().all(|(index, place)| place.owner() == index + 1));
        places[3].give_back();
        assert!(ptr::eq(table.take(99), places[3]));
        places.iter().for_each(|place| place.give_back());
        assert!((0..CHUNK).all(|_| table.take(1).bit != 0));
        assert_eq!(table.chunks().count(), 2);
    }

    #[test]
    fn only_places_with_forks_are_pending() {
        let table = ForkTable::new();
        let places: Vec<_> = (0..4).map(|owner| table.take(owner)).collect();
        let fork: *mut Fork = ptr::without_provenance_mut(8);
        assert!(places[1].deque().push(fork) && places[3].deque().push(fork));
        let pending = |start| table.pending(start).map(|place| place.owner()).collect::<Vec<_>>();
        assert_eq!((pending(0), pending(2)), (vec![1, 3], vec![3, 1]));
        assert_eq!(places[1].deque().pop(), fork);
        assert_eq!(pending(0), [3]);
    }
}
