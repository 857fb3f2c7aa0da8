//! Records which RwLocks a goroutine has locked for reading. Reports need this, because a writer waits for
//! every reader.
//!
//! An RwLock counts its readers and has no room to list them. So each goroutine stores the addresses of the
//! locks in a thread-local of its own. That has room for four locks; further read locks are not recorded.
//! Goroutines that share their M's thread-locals have no record. Plain threads keep one, but nobody reads it.
//!
//! - R1. A parked goroutine holds every lock in its record: it adds a lock after it has taken it, and removes
//!   it before it releases it. Guards cannot be sent to other goroutines. (A guard that was forgotten holds
//!   the lock forever. If that lock is dropped nevertheless, the record is wrong.)

use crate::base::owner_cell::OwnerUsize;
use crate::sched::types::g::G;
use crate::tls;

/// The number of read locks that a goroutine can record. It is fixed, so that a read lock allocates nothing.
const MOST: usize = 4;

thread_local! {
    static READS: [OwnerUsize; MOST] = const { [const { OwnerUsize::new(0) }; MOST] };
}

/// Records a lock that the caller has locked. Not inline: a shared-TLS goroutine may have changed threads
/// inside the calling function, which must not reuse a thread-local address from before.
#[inline(never)]
pub(in crate::sync) fn add(lock: usize) {
    replace(0, lock);
}

/// Removes a lock that the caller is about to release. Not inline, for the same reason as [`add`].
#[inline(never)]
pub(in crate::sync) fn remove(lock: usize) {
    replace(lock, 0);
}

#[inline(always)]
fn replace(old: usize, new: usize) {
    READS.with(|reads| {
        if let Some(place) = reads.iter().find(|place| place.get() == old) {
            place.set(new);
        }
    });
}

/// Finds the record of any goroutine.
#[derive(Clone, Copy)]
pub(crate) struct Reads {
    /// The record's address minus the thread pointer, in bytes.
    offset: isize,
}

impl Reads {
    /// Computes the offset from the caller's own record. Not inline, for the same reason as [`add`].
    #[inline(never)]
    pub(crate) fn new() -> Reads {
        Reads { offset: READS.with(|reads| reads.as_ptr() as isize) - tls::current() as isize }
    }

    /// The addresses of the locks that this goroutine has locked for reading, as far as they are recorded.
    pub(crate) fn of(self, g: &'static G) -> impl Iterator<Item = usize> {
        let block = Some(g.tp.get()).filter(|&tp| tp != 0);
        block.into_iter().flat_map(move |tp| {
            // SAFETY: this thread-local is at the same offset in every block and thread, as `CURRENT` is, and
            // blocks are never unmapped.
            let reads = unsafe { &*(tp.wrapping_add_signed(self.offset) as *const [OwnerUsize; MOST]) };
            reads.iter().map(OwnerUsize::get).filter(|&lock| lock != 0)
        })
    }
}
