//! The word of one direction (read or write) of a descriptor, in which waiting and readiness meet.
//!
//! | state      | low bits | meaning                                                                 |
//! |------------|----------|-------------------------------------------------------------------------|
//! | NIL        | all 0    | nothing is known, and no one waits                                      |
//! | WAITING(w) | 00 or 01 | `w` waits (the number of its Waiter)                                    |
//! | READY(v)   | 10       | the poll number `v` returned an edge; bit 2: not only for data          |
//! | CLOSED     | 11       | closed, until `reset`                                                   |
//!
//! How to use it: call `observe`, try the I/O, and if that would block call `begin_wait` with what was
//! observed. `begin_wait` succeeds only if nothing has happened since, so no edge between the attempt and the
//! wait is lost. A READY that was observed before an attempt which would block is stale, so it needs no
//! second attempt. README.md has the argument.

use crate::base::atomic::{AtomicUsize, Ordering};

const NIL: usize = 0;
const READY: usize = 0b10;
const SPECIAL: usize = 0b100;
const CLOSED: usize = 0b11;

pub(crate) struct PollWord(AtomicUsize);

/// The value of a word at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Observed(usize);

impl Observed {
    pub(crate) fn is_closed(self) -> bool {
        self.0 == CLOSED
    }

    /// As a number, to be compared with later ones.
    #[inline]
    pub(crate) fn to_word(self) -> usize {
        self.0
    }

    /// Whether it holds an edge for data only: no end of the stream, no error. If a read from a stream that
    /// returns all it has (`Gate::read_stream`) after this observation returns less than the buffer holds,
    /// there is no more data until the word changes.
    #[inline]
    pub(crate) fn is_plain_edge(self) -> bool {
        self.0 & (READY | SPECIAL | 1) == READY
    }

    fn is_waiting(self) -> bool {
        self.0 != NIL && self.0 & READY == 0
    }
}

impl PollWord {
    #[allow(dead_code, reason = "tests and models make one; those of descriptors are zeroed memory")]
    pub(crate) fn new() -> PollWord {
        PollWord(AtomicUsize::new(NIL))
    }

    /// To be called before an attempt at I/O.
    #[inline]
    #[must_use]
    pub(crate) fn observe(&self) -> Observed {
        // Acquire pairs with the release in `notify`: the I/O that follows sees what made the descriptor
        // ready.
        Observed(self.0.load(Ordering::Acquire))
    }

    /// Publishes `waiter`, unless something happened since `observed`. Only one waiter at a time may wait:
    /// callers take turns. True: the wait will be ended exactly once, unless [`cancel`](PollWord::cancel)
    /// succeeds.
    #[inline]
    #[must_use]
    pub(crate) fn begin_wait(&self, observed: Observed, waiter: usize) -> bool {
        debug_assert!(waiter & READY == 0 && waiter != NIL, "a Waiter's number");
        if observed.is_closed() || observed.is_waiting() {
            return false;
        }
        // AcqRel pairs with `kick`. A waiter with a deadline reads the deadline again after this; a thread
        // that changes the deadline calls `kick` afterwards. Both are read-modify-writes of one word, so the
        // second sees the first and everything before it.
        self.0.compare_exchange(observed.0, waiter, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends the wait of `waiter`; called by its deadline or by itself. False: another thread has ended it,
    /// and its `ready` has come or will come.
    #[must_use]
    pub(crate) fn cancel(&self, waiter: usize) -> bool {
        self.0.compare_exchange(waiter, NIL, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The poll number `version` returned an edge; `special`: not only for data. Returns the waiter, if there
    /// is one, which the caller must ready.
    ///
    /// Two polls may call this in another order than the kernel returned their edges. So if the word holds an
    /// edge that no one has consumed, its `special` stays: it may be the end of the stream, which the kernel
    /// reports once.
    #[must_use]
    pub(crate) fn notify(&self, version: usize, special: bool) -> Option<usize> {
        self.change(|now| {
            let special = special || (now & 0b11 == READY && now & SPECIAL != 0);
            version << 3 | if special { SPECIAL } else { 0 } | READY
        })
    }

    /// Ends all waiting for good. Returns the waiter, if there is one, which the caller must ready.
    #[must_use]
    pub(crate) fn close(&self) -> Option<usize> {
        self.change(|_| CLOSED)
    }

    fn change(&self, to: impl Fn(usize) -> usize) -> Option<usize> {
        let mut now = self.0.load(Ordering::Relaxed);
        while now != CLOSED {
            match self.0.compare_exchange_weak(now, to(now), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(before) => return Observed(before).is_waiting().then_some(before),
                Err(other) => now = other,
            }
        }
        None
    }

    /// Ends a wait without an edge, so that the waiter reads its deadline again. Returns the waiter, which
    /// the caller must ready.
    #[must_use]
    pub(crate) fn kick(&self) -> Option<usize> {
        // This does not change the word, but its release pairs with the acquire of the next `begin_wait`,
        // which then sees what the caller did before.
        let now = self.0.fetch_add(0, Ordering::AcqRel);
        (Observed(now).is_waiting() && self.cancel(now)).then_some(now)
    }

    /// Prepares the word for its next descriptor. No one waits.
    pub(crate) fn reset(&self) {
        debug_assert!(!Observed(self.0.load(Ordering::Relaxed)).is_waiting());
        self.0.store(NIL, Ordering::Relaxed);
    }
}
