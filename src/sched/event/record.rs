//! A record of an event log: two words, written without a lock and read by another thread.
//!
//! ```text
//! first word    48 bits: time (ns), or a value | 8 bits: extra | 8 bits: kind
//! second word   what it is about: the id of a goroutine, the number of a P, an address
//! ```
//! An event may need more than one record says. Then *details* come before it in the same log: addresses,
//! texts, the frames of a stack. Details have no time; those 48 bits hold a value of theirs.

/// What a record says. The number 0 is no kind: it marks a place that was not written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A goroutine was made, and is runnable. Details: `Site`, `Function`, `Text` (its name).
    Create = 1,
    /// A goroutine begins to run on this M.
    Start,
    /// It waits: extra is the reason, and the depth of its stack is in the high bits of the second word.
    /// Details: `Site` (where it was made) and `Frame`s, if its stack was sampled.
    Wait,
    /// It lets others run.
    Yield,
    /// Its slice is over.
    Preempt,
    /// It ended. Details: `Site`, where it was made.
    End,
    /// The wait of a goroutine ended. Depth and details as for `Wait`, but all of the goroutine that ended
    /// it.
    Unblock,
    /// The goroutine enters a marked blocking call, and leaves its P behind. Depth and details as for `Wait`.
    CallBegin,
    /// It returned from that call, and took its P back.
    CallEnd,
    /// It returned from a blocking call, marked or not, and its P was gone.
    CallEndWithoutP,
    /// This M got a P.
    ProcStart,
    /// This M gave its P up.
    ProcStop,
    /// A P was taken from an M in a marked call: the number of the M, and that of the P.
    Steal,
    /// A P was taken from an M in an unmarked call, as for `Steal`.
    Detach,
    /// A task, a region or a message of the program. Details: `Text`s.
    TaskBegin,
    TaskEnd,
    RegionBegin,
    RegionEnd,
    Log,
    /// Detail: the address of a `Location`.
    Site,
    /// Detail: address and length of a static text.
    Function,
    /// Detail: extra bytes of a text, up to 14; see [`Record::text`].
    Text,
    /// Detail: the end of a text, which consists of the `Text`s before it.
    TextEnd,
    /// Detail: a frame of a stack, the innermost first.
    Frame,
    /// Detail: the task that a region, a message or a new task belongs to.
    Task,
    /// Nothing: fills a place.
    Pad,
}

const LAST: u8 = Kind::Pad as u8;
const TIME_BITS: u32 = 48;
/// The 48 bits that a time or a value has.
pub(crate) const VALUE: u64 = (1 << TIME_BITS) - 1;
/// Bytes of text that one record holds.
pub(crate) const TEXT_BYTES: usize = 14;

/// A record as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) first: u64,
    pub(crate) second: u64,
}

impl Record {
    #[inline]
    pub(crate) fn new(kind: Kind, extra: u8, time_or_value: u64, second: u64) -> Record {
        Record { first: (time_or_value & VALUE) << 16 | u64::from(extra) << 8 | kind as u64, second }
    }

    pub(crate) fn kind(self) -> Kind {
        let number = (self.first & 0xff) as u8;
        assert!((1..=LAST).contains(&number), "gort: event log: a torn record");
        // SAFETY: the kinds are numbered from 1 to LAST without a gap.
        unsafe { std::mem::transmute::<u8, Kind>(number) }
    }

    /// Whether it is a detail of the event that follows, or fills a place.
    pub(crate) fn is_detail(self) -> bool {
        (self.first & 0xff) as u8 >= Kind::Site as u8
    }

    pub(crate) fn extra(self) -> u8 {
        (self.first >> 8) as u8
    }

    /// The lowest 48 bits of the time, or the value.
    pub(crate) fn value(self) -> u64 {
        self.first >> 16
    }

    /// The time (ns) of an event that happened not long before or after `near`.
    pub(crate) fn time(self, near: u64) -> u64 {
        let difference = self.value().wrapping_sub(near) << 16;
        near.wrapping_add(((difference as i64) >> 16) as u64)
    }

    /// Up to [`TEXT_BYTES`] bytes of a text.
    pub(crate) fn text(bytes: &[u8]) -> Record {
        let mut all = [0u8; 16];
        all[..bytes.len()].copy_from_slice(bytes);
        let word = |from: usize| u64::from_le_bytes(std::array::from_fn(|i| all[from + i]));
        Record::new(Kind::Text, bytes.len() as u8, word(8), word(0))
    }

    /// The bytes of a [`text`](Record::text).
    pub(crate) fn text_bytes(self) -> ([u8; 16], usize) {
        let mut all = [0u8; 16];
        all[..8].copy_from_slice(&self.second.to_le_bytes());
        all[8..].copy_from_slice(&self.value().to_le_bytes());
        (all, usize::from(self.extra()).min(TEXT_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_its_loss_of_high_bits() {
        for near in [VALUE - 5, VALUE, 5 << TIME_BITS, (5 << TIME_BITS) + 77] {
            for time in [near - 1000, near, near + 1000] {
                assert_eq!(Record::new(Kind::Start, 0, time, 1).time(near), time);
            }
        }
    }

    #[test]
    fn texts_come_back() {
        for text in ["", "a", "12345678", "12345678901234"] {
            let record = Record::text(text.as_bytes());
            let (bytes, len) = record.text_bytes();
            assert_eq!((&bytes[..len], record.kind()), (text.as_bytes(), Kind::Text));
        }
    }
}
