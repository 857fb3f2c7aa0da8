//! One direction of a descriptor: the word in which waiting and readiness meet.
//!
//! | state      | low bits | meaning                                                                 |
//! |------------|----------|-------------------------------------------------------------------------|
//! | NIL        | all 0    | nothing is known, nobody waits                                          |
//! | WAITING(w) | 00 or 01 | `w` waits (the number of its Waiter)                                    |
//! | READY(v)   | 10       | an edge came, in the poll of number `v`; bit 2: it told of more than data |
//! | CLOSED     | 11       | for good, until `reset`                                                 |
//!
//! How to use it: `observe`, try the I/O, and if that would block `begin_wait` with what was observed. It
//! succeeds only if nothing has happened since, so no edge between the attempt and the wait is lost; and a
//! READY that was observed before an attempt which would block is stale, so it needs no second attempt.
//! README.md has the argument.

use crate::base::atomic::{AtomicUsize, Ordering};

const NIL: usize = 0;
const READY: usize = 0b10;
const SPECIAL: usize = 0b100;
const CLOSED: usize = 0b11;

pub(crate) struct PollWord(AtomicUsize);

/// What a word said at some moment.
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

    /// Whether it tells of an edge that told of data and nothing else (no end, no error). If a read from a
    /// stream that gives all it has (`Gate::read_stream`) after this observation gives less than was asked
    /// for, there is nothing more until the word changes.
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

    /// Publishes `waiter`, unless something happened since `observed`. Only one at a time may wait: callers
    /// take turns. True: somebody will end this wait exactly once, unless [`cancel`](PollWord::cancel)
    /// succeeds.
    #[inline]
    #[must_use]
    pub(crate) fn begin_wait(&self, observed: Observed, waiter: usize) -> bool {
        debug_assert!(waiter & READY == 0 && waiter != NIL, "a Waiter's number");
        if observed.is_closed() || observed.is_waiting() {
            return false;
        }
        // AcqRel pairs with `kick`: who waits with a deadline looks at it again after this, and who changes
        // it kicks after. Both are read-modify-writes of one word, so the second sees the first and what came
        // before it.
        self.0.compare_exchange(observed.0, waiter, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The deadline's, or the waiter's own: ends the wait of `waiter`. False: somebody else did, and its
    /// `ready` has come or will come.
    #[must_use]
    pub(crate) fn cancel(&self, waiter: usize) -> bool {
        self.0.compare_exchange(waiter, NIL, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The poll of number `version` saw an edge, which told of more than data if `special`. Whoever waited is
    /// returned and must be readied.
    ///
    /// Two polls may tell of their edges in the other order than the kernel told them. Of an edge that nobody
    /// has seen yet, `special` stays: it may be the stream's end, which the kernel tells once.
    #[must_use]
    pub(crate) fn notify(&self, version: usize, special: bool) -> Option<usize> {
        self.change(|now| {
            let special = special || (now & 0b11 == READY && now & SPECIAL != 0);
            version << 3 | if special { SPECIAL } else { 0 } | READY
        })
    }

    /// Ends all waiting for good. Whoever waited is returned and must be readied.
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

    /// Ends a wait without an edge, so that the waiter looks at its deadline again.
    #[must_use]
    pub(crate) fn kick(&self) -> Option<usize> {
        // Writes nothing new, but releases what the caller did before to the next `begin_wait`, which
        // acquires it.
        let now = self.0.fetch_add(0, Ordering::AcqRel);
        (Observed(now).is_waiting() && self.cancel(now)).then_some(now)
    }

    /// For the next use of the descriptor. Nobody waits.
    pub(crate) fn reset(&self) {
        debug_assert!(!Observed(self.0.load(Ordering::Relaxed)).is_waiting());
        self.0.store(NIL, Ordering::Relaxed);
    }
}
