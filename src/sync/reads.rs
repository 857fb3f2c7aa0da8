//! Which RwLocks a goroutine has locked for reading. Reports ask: a writer waits for every reader.
//!
//! A lock counts its readers and has no room to know them. So each of them remembers the addresses of the locks, in
//! thread-locals of its own. Four of them: what else it reads meanwhile is not known, and the same goes for goroutines that
//! have no thread-locals of their own. Nobody looks at those of threads.
//!
//! - R1. What a parked goroutine remembers, it holds: it writes down a lock that it has, and crosses it out before it releases
//!   it. Guards cannot be sent to others. (A guard that was forgotten holds the lock for ever; if the lock is dropped all the
//!   same, what its goroutine remembers is wrong.)

use crate::sched::g::G;
use crate::sched::peek::PeekUsize;
use crate::tls;

const MOST: usize = 4;

thread_local! {
    static READS: [PeekUsize; MOST] = const { [const { PeekUsize::new(0) }; MOST] };
}

/// The caller has locked it. Not inline: a shared-TLS goroutine may have changed threads in the function that calls.
#[inline(never)]
pub(super) fn add(lock: usize) {
    replace(0, lock);
}

/// The caller is about to release it.
#[inline(never)]
pub(super) fn remove(lock: usize) {
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

/// Where goroutines remember what they read.
#[derive(Clone, Copy)]
pub(crate) struct Reads {
    /// Relative to the thread pointer.
    offset: isize,
}

impl Reads {
    /// Not inline: as [`add`].
    #[inline(never)]
    pub(crate) fn new() -> Reads {
        Reads { offset: READS.with(|reads| reads.as_ptr() as isize) - tls::current() as isize }
    }

    /// The addresses of the locks that this goroutine has locked for reading, as far as that is known.
    pub(crate) fn of(self, g: &'static G) -> impl Iterator<Item = usize> {
        let block = Some(g.tp.get()).filter(|&tp| tp != 0);
        block.into_iter().flat_map(move |tp| {
            // SAFETY: this thread-local is at the same offset in every block and thread, as `CURRENT` is, and blocks are
            // never unmapped.
            let reads = unsafe { &*(tp.wrapping_add_signed(self.offset) as *const [PeekUsize; MOST]) };
            reads.iter().map(PeekUsize::get).filter(|&lock| lock != 0)
        })
    }
}
