//! The records of descriptor numbers: a table that grows, and what each record holds. What is known of a
//! number is in `known.rs`, its users are in `users.rs`.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::kind::Kind;
use super::known::Known;
use super::users::State;
use crate::base::lock::Lock;
use crate::netpoll::{Direction, Registration};
use crate::sched::run::runtime_section;
use crate::sync::Mutex;
use crate::transparent::who::caller::{Outcome, errno_of};

/// Records in a chunk, which is allocated when the first of its numbers is waited for, and never freed.
const CHUNK: usize = 256;
/// The most chunks: four million descriptors.
const CHUNKS: usize = 16 << 10;

static TABLE: [AtomicPtr<[Descriptor; CHUNK]>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

/// What is known of a descriptor number. Padded, because neighbours are other goroutines' connections.
#[repr(align(128))]
pub(in crate::transparent) struct Descriptor {
    /// What holds until the number stands for another open file.
    pub(super) known: Known,
    /// The netpoller counts the number as one that it watches. Changed under the lock of `state`.
    pub(super) watched: AtomicBool,
    /// Calls that wait, or are about to. For those that close: if it is 0, no lock is taken.
    pub(super) waiting: AtomicU32,
    /// Calls that joined before this number changed fail.
    pub(super) outdated: AtomicU32,
    /// The number was closed while calls wait in its poll words, which go on with a duplicate: they are to be
    /// woken.
    pub(super) moved_away: AtomicBool,
    /// The poll words; made for the first wait, and never changed. Null, or a leaked box.
    registration: AtomicPtr<Registration>,
    /// The poll word of reads as it was before the last one, if that emptied the stream: a hint that the next
    /// one had better wait first. Otherwise 0.
    pub(super) drained: AtomicUsize,
    pub(super) state: Lock<State>,
    /// For each direction, the right to wait in the poll word.
    pub(super) turns: [Mutex<()>; 2],
}

impl Descriptor {
    const fn new() -> Descriptor {
        Descriptor {
            known: Known { facts: AtomicU64::new(0), limits: [AtomicU64::new(0), AtomicU64::new(0)] },
            watched: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            outdated: AtomicU32::new(0),
            moved_away: AtomicBool::new(false),
            registration: AtomicPtr::new(ptr::null_mut()),
            drained: AtomicUsize::new(0),
            state: Lock::new(State::new()),
            turns: [Mutex::new(()), Mutex::new(())],
        }
    }

    fn place(fd: c_int) -> Option<(&'static AtomicPtr<[Descriptor; CHUNK]>, usize)> {
        let fd = usize::try_from(fd).ok()?;
        Some((TABLE.get(fd / CHUNK)?, fd % CHUNK))
    }

    /// The record of a number, if there is one.
    pub(in crate::transparent) fn existing(fd: c_int) -> Option<&'static Descriptor> {
        let (chunk, place) = Descriptor::place(fd)?;
        // SAFETY: chunks are never freed. Acquire pairs with the release in `of`.
        unsafe { chunk.load(Ordering::Acquire).as_ref() }.map(|chunk| &chunk[place])
    }

    /// The records of the numbers from `first` to `last`, as far as there are any.
    pub(in crate::transparent) fn known(
        first: u32,
        last: u32,
    ) -> impl Iterator<Item = (c_int, &'static Descriptor)> + Clone {
        let last = (last as usize).min(CHUNK * CHUNKS - 1);
        let chunks = TABLE.iter().enumerate().filter(|(_, chunk)| !chunk.load(Ordering::Acquire).is_null());
        let numbers = chunks.flat_map(|(number, _)| number * CHUNK..(number + 1) * CHUNK);
        let wanted = numbers.filter(move |fd| (first as usize..=last).contains(fd));
        wanted.filter_map(|fd| Some((fd as c_int, Descriptor::existing(fd as c_int)?)))
    }

    /// The record of a number.
    pub(in crate::transparent) fn of(fd: c_int) -> Option<&'static Descriptor> {
        if let Some(descriptor) = Descriptor::existing(fd) {
            return Some(descriptor);
        }
        let (chunk, _) = Descriptor::place(fd)?;
        // Through a vector, because a box would be built on the goroutine's stack.
        let new: Box<[Descriptor]> = (0..CHUNK).map(|_| Descriptor::new()).collect();
        let new = Box::into_raw(new).cast::<[Descriptor; CHUNK]>();
        if chunk.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: another thread was faster, and nobody else has a pointer to ours.
            drop(unsafe { Box::from_raw(new) });
        }
        Descriptor::existing(fd)
    }

    pub(in crate::transparent) fn kind(&self) -> Kind {
        Kind::from_u8(self.known.facts().kind())
    }

    /// The poll words, if there was a wait before.
    pub(super) fn known_registration(&self) -> Option<Registration> {
        // SAFETY: never freed. Acquire pairs with the release in `registration`.
        unsafe { self.registration.load(Ordering::Acquire).as_ref() }.copied()
    }

    /// The poll words, which the first wait makes.
    #[inline(never)]
    pub(super) fn registration(&self) -> Outcome<Registration> {
        if let Some(registration) = self.known_registration() {
            return Ok(registration);
        }
        // One that is made in vain is lost: the records of the netpoller are never freed either.
        let new = Registration::unwatched(runtime_section::enter).map_err(errno_of)?;
        let new = Box::into_raw(Box::new(new));
        let result =
            self.registration.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: never freed.
        Ok(unsafe { *result.map_or_else(|earlier| earlier, |_| new) })
    }

    /// To be called before a read. Pass the result to [`note_short_read`](Descriptor::note_short_read).
    pub(in crate::transparent) fn observe_reads(&self) -> usize {
        self.known_registration().map_or(0, |registration| {
            let observed = registration.observe(Direction::Read);
            if observed.is_plain_edge() { observed.to_word() } else { 0 }
        })
    }

    /// A read returned less than it asked for: if it is TCP, the stream is empty. A Unix socket may not be: a
    /// read there also ends where descriptors were sent along, or where another sender begins.
    pub(in crate::transparent) fn note_short_read(&self, observed: usize) {
        if self.kind() == Kind::Tcp {
            self.drained.store(observed, Ordering::Relaxed);
        }
    }

    /// Whether a read is likely to find nothing: the last one emptied the stream, and there was no edge
    /// since.
    pub(in crate::transparent) fn is_likely_empty(&self) -> bool {
        let drained = self.drained.load(Ordering::Relaxed);
        drained != 0 && self.observe_reads() == drained
    }

    /// The number is another open file's, or nobody's. Takes no lock (K1 in known.rs).
    pub(in crate::transparent) fn forget(&self) {
        self.drained.store(0, Ordering::Relaxed);
        self.known.forget();
    }

    /// Somebody else has told epoll what to do about the number.
    pub(in crate::transparent) fn forget_watch(&self) {
        self.drained.store(0, Ordering::Relaxed);
        self.known.forget_watch();
    }
}
