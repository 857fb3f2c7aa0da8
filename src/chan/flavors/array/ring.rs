//! The ring buffer of a bounded channel. Any number of senders and receivers use it without a lock, with one
//! atomic read-modify-write per operation, and flags in its words can stop them all.
//!
//! `tail` is where the next message is put, `head` is where the next one is taken. Both are positions with
//! flags in the low bits:
//! ```text
//!   word = position << 3 | flags          position = lap << k | index        2^k >= capacity > index
//! ```
//! A slot's stamp says who may use the slot: `2 * lap` means free for the sender of that lap, `2 * lap + 1`
//! means filled in that lap. A sender owns the slot at `tail` from the moment it moves `tail` on until it
//! stamps the slot filled. A receiver owns the slot at `head` from the moment it moves `head` on until it
//! stamps the slot free for the next lap.
//!
//! **Flags.** A flag stops operations that do not hold the lock: an operation moves a word only if the word
//! carries no flag, except flags that its caller told it to ignore. Flags are set and cleared only under the
//! channel's lock.
//! - `WAITING` in `tail`: receivers wait, so senders must take the lock. In `head`: senders wait, so
//!   receivers must take the lock.
//! - `HELD` in `tail`: some room is reserved, so senders must take the lock to see how much is left.
//! - `CLOSED` in `tail`: nothing may be sent any more.
//!
//! Why no wake-up is lost: a receiver that wants to sleep sets `WAITING` with a read-modify-write that
//! returns the position of `tail`. If that equals `head`, the ring was empty at that instant, and from then
//! on no sender can move `tail` without seeing the flag. The same holds for senders, with `head` and a full
//! ring. There is no second word to be ordered against, hence no fence. README.md has the whole argument.
//!
//! **Contention.** When two processors move a word alternately, each move costs a hundred nanoseconds,
//! because the cache line travels between them. So an operation that loses the race for a word backs off for
//! a while, and the winner goes on at full speed: with equally many senders and receivers, a message then
//! costs a quarter of what it costs without backing off. An operation that holds the channel's lock does not
//! back off: it returns, releases the lock and starts again.
//!
//! R1. While a word carries `WAITING` (or `tail` carries `HELD` or `CLOSED`), only a holder of the lock
//! changes it.
//! R2. `head <= tail <= head + capacity`, in positions.

use crate::base::atomic::{AtomicUsize, Ordering, stay_away};
use crate::chan::flavors::pad::Pad;
use crate::chan::flavors::slot::{Slot, slots};

/// Flag: operations are queued that wait for this word to move (receivers for `tail`, senders for `head`).
pub(crate) const WAITING: usize = 1;
/// Flag in `tail`: room is reserved.
pub(crate) const HELD: usize = 2;
/// Flag in `tail`: nothing may be sent any more.
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

/// The result of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Push {
    /// The message is in the ring.
    Done,
    /// There was no room.
    Full,
    /// A flag stopped the operation.
    Flagged,
    /// A receiver is about to free the slot. Try again; this may take long if the kernel interrupted its
    /// thread.
    Busy,
}

/// The result of a pop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pop {
    /// The message was moved out.
    Done,
    /// There was no message. If `closed`, there will never be another.
    Empty { closed: bool },
    /// A flag stopped the operation.
    Flagged,
    /// A sender is about to fill the slot. Try again; this may take long if the kernel interrupted its
    /// thread.
    Busy,
}

/// What is in the slot at the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Front {
    /// A message.
    Filled,
    /// No message. If `closed`, there will never be another.
    Empty { closed: bool },
    /// A message that its sender has not written completely yet.
    Busy,
}

/// Backs off after another processor won the race for a word, for the `losses + 1`st time in a row. The pause
/// doubles each time, up to some ten microseconds.
#[cold]
fn step_aside(losses: &mut u32) {
    stay_away(1 << (*losses).min(4));
    *losses += 1;
}

/// The ring. Padding keeps the read-only fields, `tail` and `head` in different cache lines.
#[repr(C)]
pub(crate) struct Ring<T> {
    slots: Box<[Slot<T>]>,
    /// `2^k - 1`, where `2^k` is the number of positions in a lap: the mask of a position's index.
    mask: usize,
    /// `k`: the number of bits of an index.
    bits: u32,
    _before_tail: Pad,
    tail: AtomicUsize,
    _after_tail: Pad,
    head: AtomicUsize,
    _after_head: Pad,
}

// SAFETY: stamps give each slot one owner at a time. Messages move between threads, hence `T: Send`.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: the ring owns its messages.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    /// Creates a ring for `capacity` messages, at least one.
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

    /// The number of messages between two words, including those that are being moved in or out.
    fn count(&self, head: Word, tail: Word) -> usize {
        let (head, tail) = (head.position(), tail.position());
        let laps = (tail >> self.bits).wrapping_sub(head >> self.bits);
        laps.wrapping_mul(self.capacity()).wrapping_add(tail & self.mask).wrapping_sub(head & self.mask)
    }

    /// Moves a message into the ring, if `tail` carries no flag.
    ///
    /// # Safety
    /// `from` points to a message. If the result is `Done`, the message has moved: the caller must not use or
    /// drop it.
    #[inline]
    pub(crate) unsafe fn push(&self, from: *const T) -> Push {
        let mut losses = 0;
        loop {
            // SAFETY: the caller's promise.
            match unsafe { self.try_push(from, 0) } {
                Some(result) => return result,
                None => step_aside(&mut losses),
            }
        }
    }

    /// Moves a message into the ring, if `tail` carries no flag other than those in `ignore`. `None` if
    /// another operation moved `tail` meanwhile.
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
        // Acquire pairs with the Release in `leave`: the slot's last reader is done with it.
        let stamp = slot.stamp.load(Ordering::Acquire);
        let free = self.stamp_free(position);
        if stamp < free {
            // The slot still belongs to the previous lap, so no sender had moved `tail` past it when we read
            // the stamp.
            let head = Word(self.head.load(Ordering::Relaxed));
            return Some(if self.count(head, tail) == self.capacity() { Push::Full } else { Push::Busy });
        }
        let next = tail.moved_to(self.after(position));
        let moved = stamp == free
            && self.tail.compare_exchange(tail.0, next.0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        moved.then(|| {
            // SAFETY: moving `tail` past the free slot made it ours, and the caller gives us the message.
            unsafe { slot.place.write(from) };
            // Release pairs with the Acquire in `try_pop`: the receiver sees the message.
            slot.stamp.store(self.stamp_filled(position), Ordering::Release);
            Push::Done
        })
    }

    /// Moves a message out of the ring, if `head` carries no flag.
    ///
    /// # Safety
    /// `to` may be written to; it holds a message if the result is `Done`.
    #[inline]
    pub(crate) unsafe fn pop(&self, to: *mut T) -> Pop {
        let mut losses = 0;
        loop {
            // SAFETY: the caller's promise.
            match unsafe { self.try_pop(to, 0) } {
                Some(result) => return result,
                None => step_aside(&mut losses),
            }
        }
    }

    /// Moves a message out of the ring, if `head` carries no flag other than those in `ignore`. `None` if
    /// another operation moved `head` meanwhile.
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
            // SAFETY: moving `head` past the filled slot made it ours.
            unsafe { slot.place.read(to) };
            self.leave(slot, position);
            Pop::Done
        })
    }

    /// Frees a slot for the next lap.
    #[inline]
    fn leave(&self, slot: &Slot<T>, position: usize) {
        // Release pairs with the Acquire in `try_push`: our read of the slot comes before the next write.
        slot.stamp.store(self.stamp_filled(position) + 1, Ordering::Release);
    }

    /// Tells why there was nothing to pop: the ring is empty, or a sender is still filling the slot. The
    /// caller found the slot at `head` not filled, so `head` was current at that moment.
    #[inline]
    fn why_nothing(&self, head: Word) -> Pop {
        // Acquire pairs with the Release in `flag_tail`: a receiver that sees the close also sees what came
        // before it.
        let tail = Word(self.tail.load(Ordering::Acquire));
        if tail.is_at(head) { Pop::Empty { closed: tail.has(CLOSED) } } else { Pop::Busy }
    }

    pub(crate) fn len(&self) -> usize {
        loop {
            // Acquire: the second load of `tail` must not be reordered before the load of `head`.
            let tail = Word(self.tail.load(Ordering::Acquire));
            let head = Word(self.head.load(Ordering::Acquire));
            if Word(self.tail.load(Ordering::Relaxed)).is_at(tail) {
                // `exchange` moves `head` before `tail`: a reader between the two counts one message too few.
                // A reader that sees the new `tail` but the old `head` would count one too many, hence the
                // limit.
                return self.count(head, tail).min(self.capacity());
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire pairs with the Release in `flag_tail`.
        Word(self.tail.load(Ordering::Acquire)).has(CLOSED)
    }

    // The following methods are for holders of the channel's lock.

    pub(crate) fn tail(&self) -> Word {
        Word(self.tail.load(Ordering::Relaxed))
    }

    pub(crate) fn head(&self) -> Word {
        Word(self.head.load(Ordering::Relaxed))
    }

    /// Sets a flag and returns the previous value of the word.
    pub(crate) fn flag_tail(&self, flag: usize) -> Word {
        // Release pairs with the Acquire loads that look for CLOSED.
        Word(self.tail.fetch_or(flag, Ordering::AcqRel))
    }

    /// Sets a flag and returns the previous value of the word.
    pub(crate) fn flag_head(&self, flag: usize) -> Word {
        Word(self.head.fetch_or(flag, Ordering::AcqRel))
    }

    /// Clears a flag that is set.
    pub(crate) fn unflag_tail(&self, flag: usize) {
        let word = self.tail.load(Ordering::Relaxed);
        debug_assert_eq!(word & flag, flag);
        // A store is enough: R1. Release, because this store may carry CLOSED: a thread that sees CLOSED here
        // must also see what came before the close.
        self.tail.store(word & !flag, Ordering::Release);
    }

    /// Clears a flag that is set.
    pub(crate) fn unflag_head(&self, flag: usize) {
        let word = self.head.load(Ordering::Relaxed);
        debug_assert_eq!(word & flag, flag);
        // A store is enough: R1.
        self.head.store(word & !flag, Ordering::Relaxed);
    }

    /// The number of messages between these values of `head` and `tail`.
    pub(crate) fn len_between(&self, head: Word, tail: Word) -> usize {
        self.count(head, tail)
    }

    /// What is in the slot at the head. `head` carries `WAITING`.
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

    /// Is the slot at the tail free to be filled at once? `tail` carries `HELD`.
    pub(crate) fn back_is_free(&self) -> bool {
        let position = self.tail().position();
        // Acquire pairs with the Release in `leave`.
        self.slot(position).stamp.load(Ordering::Acquire) == self.stamp_free(position)
    }

    /// Takes the message at the head of a full ring and puts another one at its tail, which is the same slot.
    ///
    /// # Safety
    /// `head` carries `WAITING`, the front is `Filled`, and the ring is full. `to` may be written to. `from`
    /// is a message that the caller gives away.
    pub(crate) unsafe fn exchange(&self, to: *mut T, from: *const T) {
        let (head, tail) = (self.head(), self.tail());
        let (position, refill) = (head.position(), tail.position());
        debug_assert!(head.has(WAITING) && self.count(head, tail) == self.capacity());
        let slot = self.slot(position);
        // Stores are enough: `head` by R1, and `tail` because its slot is not free, so no sender moves it. A
        // sender that looks between the two stores finds the slot `Busy`.
        self.head.store(head.moved_to(self.after(position)).0, Ordering::Relaxed);
        self.tail.store(tail.moved_to(self.after(refill)).0, Ordering::Relaxed);
        // SAFETY: moving `head` made the filled slot ours, and moving `tail` past it keeps it ours until it
        // is stamped.
        unsafe {
            slot.place.read(to);
            slot.place.write(from);
        }
        // Release pairs with the Acquire in `try_pop`.
        slot.stamp.store(self.stamp_filled(refill), Ordering::Release);
    }
}
