//! The ring of a bounded channel: any number of senders and receivers, one atomic read-modify-write for
//! each operation, and a way to stop them all.
//!
//! `tail` is where the next message goes, `head` is where the next one is taken. Both are positions with
//! flags in the low bits:
//! ```text
//!   word = position << 3 | flags          position = lap << k | index        2^k >= capacity > index
//! ```
//! A slot's stamp says whose it is: `2 * lap` means free for the sender at that lap, `2 * lap + 1` means
//! filled in that lap. A sender owns the slot at `tail` when it has moved `tail` on, until it stamps the slot
//! filled; a receiver likewise with `head`, until it stamps the slot free for the next lap.
//!
//! **Flags.** A flag stops the fast side: operations move a word only if it carries no flag other than those
//! they are told to ignore. Flags are set and cleared only under the channel's lock.
//! - `WAITING` in `tail`: receivers wait; senders must come to the lock. In `head`: senders wait; receivers
//!   must.
//! - `HELD` in `tail`: some room is reserved; senders must come to the lock to see what is left.
//! - `CLOSED` in `tail`: nothing is sent any more.
//!
//! This is why no wake-up is lost: a receiver that wants to sleep sets `WAITING` with a read-modify-write that
//! returns the position of `tail`. If that equals `head`, the ring was empty at that instant, and no sender can
//! move `tail` from then on without having seen the flag. The same holds for senders, `head` and full. There is
//! no second word to be ordered against, hence no fence. README.md has the whole argument.
//!
//! **Collisions.** A word that two processors move by turns costs a hundred nanoseconds at each turn, for its cache line
//! travels. So who finds that it was moved meanwhile stays away from it for a while, and the winner goes on at full
//! speed: with as many on each side, a message costs a quarter of what it did without. Who holds the channel's lock lets
//! that go and tries again instead.
//!
//! R1. While a word carries `WAITING` (or `tail` carries `HELD` or `CLOSED`), only holders of the lock change it.
//! R2. `head <= tail <= head + capacity`, in positions.

use crate::atomic::{AtomicUsize, Ordering, stay_away};
use crate::chan::pad::Pad;
use crate::chan::slot::{Slot, slots};

/// Somebody waits at the lock for what this word's movers do.
pub(crate) const WAITING: usize = 1;
/// Room is reserved.
pub(crate) const HELD: usize = 2;
/// Nothing is sent any more.
pub(crate) const CLOSED: usize = 4;
const FLAGS: usize = WAITING | HELD | CLOSED;
const FLAG_BITS: u32 = 3;

/// A value of `head` or `tail`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(usize);

impl Word {
    #[inline]
    fn position(self) -> usize {
        self.0 >> FLAG_BITS
    }

    /// Does the word carry any of these flags?
    #[inline]
    pub(crate) fn has(self, flags: usize) -> bool {
        self.0 & flags != 0
    }

    /// Do both words name the same position?
    #[inline]
    pub(crate) fn is_at(self, other: Word) -> bool {
        self.position() == other.position()
    }

    #[inline]
    fn moved_to(self, position: usize) -> Word {
        Word(position << FLAG_BITS | self.0 & FLAGS)
    }
}

/// What a push came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Push {
    /// The message is in the ring.
    Done,
    /// There was no room.
    Full,
    /// A flag stopped it.
    Flagged,
    /// A receiver is just leaving the slot. Try again; it may take long if its thread was interrupted.
    Busy,
}

/// What a pop came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pop {
    /// The message was moved out.
    Done,
    /// There was no message; and, if closed, there will not be one.
    Empty { closed: bool },
    /// A flag stopped it.
    Flagged,
    /// A sender is just filling the slot. Try again; it may take long if its thread was interrupted.
    Busy,
}

/// What is at the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Front {
    /// A message.
    Filled,
    /// Nothing.
    Empty { closed: bool },
    /// A message that is not yet there.
    Busy,
}

/// Another processor was faster, for the `losses + 1`st time in a row: lets it have the word for a while, for twice as long
/// each time, up to some ten microseconds.
#[cold]
fn step_aside(losses: &mut u32) {
    stay_away(1 << (*losses).min(4));
    *losses += 1;
}

/// The ring itself. What all read and nobody writes is apart from `tail`, and that from `head`.
#[repr(C)]
pub(crate) struct Ring<T> {
    slots: Box<[Slot<T>]>,
    /// One less than the power of two that a lap spans.
    mask: usize,
    /// Bits of an index.
    bits: u32,
    _before_tail: Pad,
    tail: AtomicUsize,
    _after_tail: Pad,
    head: AtomicUsize,
    _after_head: Pad,
}

// SAFETY: stamps give each slot one owner at a time; messages move between threads, hence `T: Send`.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: it owns its messages.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    /// A ring for `capacity` messages, at least one.
    pub(crate) fn new(capacity: usize) -> Ring<T> {
        debug_assert!(capacity > 0);
        let lap = capacity.next_power_of_two();
        Ring {
            slots: slots(capacity),
            mask: lap - 1,
            bits: lap.trailing_zeros(),
            _before_tail: Pad::new(),
            tail: AtomicUsize::new(0),
            _after_tail: Pad::new(),
            head: AtomicUsize::new(0),
            _after_head: Pad::new(),
        }
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    fn slot(&self, position: usize) -> &Slot<T> {
        debug_assert!(position & self.mask < self.slots.len());
        // SAFETY: the index part of a position is below the capacity.
        unsafe { self.slots.get_unchecked(position & self.mask) }
    }

    #[inline]
    fn stamp_free(&self, position: usize) -> usize {
        (position >> self.bits) << 1
    }

    #[inline]
    fn stamp_filled(&self, position: usize) -> usize {
        self.stamp_free(position) | 1
    }

    #[inline]
    fn after(&self, position: usize) -> usize {
        if (position & self.mask) + 1 < self.slots.len() { position + 1 } else { (position | self.mask) + 1 }
    }

    /// Messages between two words; those just being moved count.
    fn count(&self, head: Word, tail: Word) -> usize {
        let (head, tail) = (head.position(), tail.position());
        let laps = (tail >> self.bits).wrapping_sub(head >> self.bits);
        laps.wrapping_mul(self.capacity()).wrapping_add(tail & self.mask).wrapping_sub(head & self.mask)
    }

    /// Moves a message in, if `tail` carries no flag.
    ///
    /// # Safety
    /// `from` points to a message; if the result is `Done`, it was given away.
    #[inline]
    pub(crate) unsafe fn push(&self, from: *const T) -> Push {
        let mut losses = 0;
        loop {
            // SAFETY: the caller's.
            match unsafe { self.try_push(from, 0) } {
                Some(result) => return result,
                None => step_aside(&mut losses),
            }
        }
    }

    /// Moves a message in, if `tail` carries no flag but those in `ignore`. `None`: another one moved `tail` meanwhile.
    ///
    /// # Safety
    /// As [`push`](Ring::push).
    #[inline]
    pub(crate) unsafe fn try_push(&self, from: *const T, ignore: usize) -> Option<Push> {
        let tail = Word(self.tail.load(Ordering::Relaxed));
        if tail.has(FLAGS & !ignore) {
            return Some(Push::Flagged);
        }
        let position = tail.position();
        let slot = self.slot(position);
        // Acquire pairs with the Release in `leave`: the last reader is done with the slot.
        let stamp = slot.stamp.load(Ordering::Acquire);
        let free = self.stamp_free(position);
        if stamp < free {
            // The slot is still of the last lap, so nobody had moved `tail` from here when it was read.
            let head = Word(self.head.load(Ordering::Relaxed));
            return Some(if self.count(head, tail) == self.capacity() { Push::Full } else { Push::Busy });
        }
        let next = tail.moved_to(self.after(position));
        let moved = stamp == free
            && self.tail.compare_exchange(tail.0, next.0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        moved.then(|| {
            // SAFETY: moving `tail` over a free slot made it ours; the message is given to us.
            unsafe { slot.place.write(from) };
            // Release pairs with the Acquire in `try_pop`: the message is seen.
            slot.stamp.store(self.stamp_filled(position), Ordering::Release);
            Push::Done
        })
    }

    /// Moves a message out, if `head` carries no flag.
    ///
    /// # Safety
    /// `to` may be written to; it holds a message if the result is `Done`.
    #[inline]
    pub(crate) unsafe fn pop(&self, to: *mut T) -> Pop {
        let mut losses = 0;
        loop {
            // SAFETY: the caller's.
            match unsafe { self.try_pop(to, 0) } {
                Some(result) => return result,
                None => step_aside(&mut losses),
            }
        }
    }

    /// Moves a message out, if `head` carries no flag but those in `ignore`. `None`: another one moved `head` meanwhile.
    ///
    /// # Safety
    /// As [`pop`](Ring::pop).
    #[inline]
    pub(crate) unsafe fn try_pop(&self, to: *mut T, ignore: usize) -> Option<Pop> {
        let head = Word(self.head.load(Ordering::Relaxed));
        if head.has(FLAGS & !ignore) {
            return Some(Pop::Flagged);
        }
        let position = head.position();
        let slot = self.slot(position);
        // Acquire pairs with the Release in `try_push`.
        let stamp = slot.stamp.load(Ordering::Acquire);
        let filled = self.stamp_filled(position);
        if stamp < filled {
            return Some(self.why_nothing(head));
        }
        let next = head.moved_to(self.after(position));
        let moved = stamp == filled
            && self.head.compare_exchange(head.0, next.0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        moved.then(|| {
            // SAFETY: moving `head` over a filled slot made it ours.
            unsafe { slot.place.read(to) };
            self.leave(slot, position);
            Pop::Done
        })
    }

    /// Frees a slot for the next lap.
    #[inline]
    fn leave(&self, slot: &Slot<T>, position: usize) {
        // Release pairs with the Acquire in `try_push`: we are done with the slot.
        slot.stamp.store(self.stamp_filled(position) + 1, Ordering::Release);
    }

    /// The slot at `head` was not filled when it was read, so `head` was the head then.
    #[inline]
    fn why_nothing(&self, head: Word) -> Pop {
        // Acquire pairs with the Release in `flag_tail`: who learns of the close sees what came before it.
        let tail = Word(self.tail.load(Ordering::Acquire));
        if tail.is_at(head) { Pop::Empty { closed: tail.has(CLOSED) } } else { Pop::Busy }
    }

    pub(crate) fn len(&self) -> usize {
        loop {
            // Acquire, so that the second look at `tail` is not taken before the look at `head`.
            let tail = Word(self.tail.load(Ordering::Acquire));
            let head = Word(self.head.load(Ordering::Acquire));
            if Word(self.tail.load(Ordering::Relaxed)).is_at(tail) {
                // `exchange` moves `head` before `tail`: without the limit it could be seen as one too few
                // or, by a reader of an old `head`, one too many.
                return self.count(head, tail).min(self.capacity());
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire pairs with the Release in `flag_tail`.
        Word(self.tail.load(Ordering::Acquire)).has(CLOSED)
    }

    // What follows is for holders of the channel's lock.

    pub(crate) fn tail(&self) -> Word {
        Word(self.tail.load(Ordering::Relaxed))
    }

    pub(crate) fn head(&self) -> Word {
        Word(self.head.load(Ordering::Relaxed))
    }

    /// Sets a flag and returns the word as it was.
    pub(crate) fn flag_tail(&self, flag: usize) -> Word {
        // Release pairs with the Acquire loads that look for CLOSED.
        Word(self.tail.fetch_or(flag, Ordering::AcqRel))
    }

    /// Sets a flag and returns the word as it was.
    pub(crate) fn flag_head(&self, flag: usize) -> Word {
        Word(self.head.fetch_or(flag, Ordering::AcqRel))
    }

    /// Clears a flag that is set.
    pub(crate) fn unflag_tail(&self, flag: usize) {
        let word = self.tail.load(Ordering::Relaxed);
        debug_assert_eq!(word & flag, flag);
        // A store is enough: R1. Release keeps CLOSED visible with what came before it.
        self.tail.store(word & !flag, Ordering::Release);
    }

    /// Clears a flag that is set.
    pub(crate) fn unflag_head(&self, flag: usize) {
        let word = self.head.load(Ordering::Relaxed);
        debug_assert_eq!(word & flag, flag);
        // A store is enough: R1.
        self.head.store(word & !flag, Ordering::Relaxed);
    }

    /// Messages in the ring, as far as these words tell.
    pub(crate) fn len_between(&self, head: Word, tail: Word) -> usize {
        self.count(head, tail)
    }

    /// What is at the head, which carries `WAITING`.
    pub(crate) fn front(&self) -> Front {
        let head = self.head();
        debug_assert!(head.has(WAITING));
        let position = head.position();
        // Acquire pairs with the Release in `try_push`.
        if self.slot(position).stamp.load(Ordering::Acquire) == self.stamp_filled(position) {
            return Front::Filled;
        }
        match self.why_nothing(head) {
            Pop::Empty { closed } => Front::Empty { closed },
            _ => Front::Busy,
        }
    }

    /// Is the slot at the tail, which carries `HELD`, free to be filled at once?
    pub(crate) fn back_is_free(&self) -> bool {
        let position = self.tail().position();
        // Acquire pairs with the Release in `leave`.
        self.slot(position).stamp.load(Ordering::Acquire) == self.stamp_free(position)
    }

    /// Takes the message at the head of a full ring and puts another one at its tail: the same slot.
    ///
    /// # Safety
    /// `head` carries `WAITING`, the front is `Filled`, the ring is full. `to` may be written to, `from` is a
    /// message that is given away.
    pub(crate) unsafe fn exchange(&self, to: *mut T, from: *const T) {
        let (head, tail) = (self.head(), self.tail());
        let (position, refill) = (head.position(), tail.position());
        debug_assert!(head.has(WAITING) && self.count(head, tail) == self.capacity());
        let slot = self.slot(position);
        // Stores are enough: `head` by R1, and `tail` because its slot is not free, so nobody moves it.
        // Senders who look between them find the slot Busy.
        self.head.store(head.moved_to(self.after(position)).0, Ordering::Relaxed);
        self.tail.store(tail.moved_to(self.after(refill)).0, Ordering::Relaxed);
        // SAFETY: moving `head` made the filled slot ours, and moving `tail` kept it so.
        unsafe {
            slot.place.read(to);
            slot.place.write(from);
        }
        // Release pairs with the Acquire in `try_pop`.
        slot.stamp.store(self.stamp_filled(refill), Ordering::Release);
    }
}
