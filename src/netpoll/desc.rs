//! `PollDesc`: the netpoller's record of a descriptor. PollDescs lie in chunks that are never freed, because
//! an event may arrive for a descriptor that is already closed. Such stale events are recognised by `seq`,
//! which changes at each reuse and is part of the event's data. (If the reuse comes right after the
//! comparison, the new user sees an edge that was not its own and tries its I/O once in vain. An edge is a
//! hint, never a promise.)

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::word::PollWord;
use crate::base::lock::{Lock, Rank, Ranked};
use crate::sys::mem;

/// Reading (and accepting), or writing (and connecting).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

#[repr(align(64))]
pub(crate) struct PollDesc {
    read: PollWord,
    write: PollWord,
    index: u32,
    seq: AtomicU32,
    /// The index of the next free PollDesc plus one, or 0. Guarded by the lock of `FREE`.
    next_free: Cell<u32>,
}

// SAFETY: the cell is guarded by a lock; the rest is atomic.
unsafe impl Sync for PollDesc {}

impl PollDesc {
    pub(super) fn word(&self, direction: Direction) -> &PollWord {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    /// The data of its epoll events: index and `seq`.
    pub(super) fn data(&self) -> u64 {
        u64::from(self.index) << 32 | u64::from(self.seq.load(Ordering::Relaxed))
    }
}

/// PollDescs in a chunk.
const CHUNK: usize = 16 << 10;
/// The most chunks: 16 million descriptors.
const CHUNKS: usize = 1 << 10;

static TABLE: [AtomicPtr<PollDesc>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
static FREE: Lock<Free> = Lock::new(Free { first: 0, made: 0 });

struct Free {
    /// The index of the first free PollDesc plus one, or 0.
    first: u32,
    /// How many were ever made.
    made: u32,
}

impl Ranked for Free {
    const RANK: Rank = Rank::Alone;
}

fn get(index: u32) -> Option<&'static PollDesc> {
    let (chunk, place) = (index as usize / CHUNK, index as usize % CHUNK);
    // Acquire pairs with the installation of the chunk.
    let start = TABLE.get(chunk)?.load(Ordering::Acquire);
    if start.is_null() {
        return None;
    }
    // SAFETY: within a chunk, which is never freed. Zeroed memory is a valid, unused PollDesc.
    Some(unsafe { &*start.add(place) })
}

/// The PollDesc that an event is for, unless that use of it is over.
pub(super) fn of_event(data: u64) -> Option<&'static PollDesc> {
    let desc = get((data >> 32) as u32)?;
    // Acquire pairs with the release in `free`.
    (desc.seq.load(Ordering::Acquire) == data as u32).then_some(desc)
}

/// Takes a free PollDesc, with both words NIL. The result of `enter` keeps the caller inside the runtime
/// while it lives.
pub(super) fn allocate<S>(enter: impl Fn() -> S) -> io::Result<&'static PollDesc> {
    loop {
        let mut free = FREE.lock_with(enter());
        if let Some(index) = free.first.checked_sub(1)
            && let Some(desc) = get(index)
        {
            free.first = desc.next_free.get();
            return Ok(desc);
        }
        let index = free.made;
        if let Some(desc) = get(index) {
            free.made += 1;
            drop(free);
            // SAFETY: no one else has this index, and its memory is still zeroed.
            unsafe { (&raw const desc.index).cast_mut().write(index) };
            return Ok(desc);
        }
        drop(free);
        install_chunk(index as usize / CHUNK)?;
    }
}

/// Makes room for more. Called without the lock, because an error allocates.
#[cold]
fn install_chunk(chunk: usize) -> io::Result<()> {
    let Some(place) = TABLE.get(chunk) else {
        return Err(io::Error::other(format!("more than {} descriptors are open", CHUNK * CHUNKS)));
    };
    let size = CHUNK * size_of::<PollDesc>();
    let memory = mem::reserve(size)?;
    let installed = place.compare_exchange(
        ptr::null_mut(),
        memory as *mut PollDesc,
        Ordering::Release,
        Ordering::Relaxed,
    );
    if installed.is_err() {
        // SAFETY: another thread was faster, and no one else has a pointer to our memory.
        unsafe { mem::release(memory, size) };
    }
    Ok(())
}

/// Gives it back. No one waits on it, and it is no longer registered. `enter` as for [`allocate`].
pub(super) fn free<S>(desc: &'static PollDesc, enter: impl Fn() -> S) {
    // Release pairs with the Acquire in `of_event`.
    desc.seq.fetch_add(1, Ordering::Release);
    desc.read.reset();
    desc.write.reset();
    let mut free = FREE.lock_with(enter());
    desc.next_free.set(free.first);
    free.first = desc.index + 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_an_earlier_use_are_stale() {
        let desc = allocate(|| ()).unwrap();
        let data = desc.data();
        assert!(of_event(data).is_some_and(|found| ptr::eq(found, desc)));
        free(desc, || ());
        assert!(of_event(data).is_none());
        assert!(of_event(desc.data()).is_some());
    }

    #[test]
    fn no_two_users_share_one() {
        let all: Vec<_> = (0..CHUNK + 10).map(|_| allocate(|| ()).unwrap()).collect();
        let mut indices: Vec<_> = all.iter().map(|desc| desc.index).collect();
        indices.sort_unstable();
        indices.dedup();
        assert_eq!(indices.len(), all.len());
        all.into_iter().for_each(|desc| free(desc, || ()));
    }
}
