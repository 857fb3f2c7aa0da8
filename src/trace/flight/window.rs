//! The window: the records of the last seconds, as the logs had them.
//!
//! Records are collected in blocks, each of one log, and the oldest blocks are dropped: those that are older
//! than the minimum age, and more if there are more bytes than allowed. A block ends with an event, so no
//! event is separated from its details.
//!
//! - W1. Of all events after [`Window::complete_from`], none is missing. A dropped block moves that to the
//!   time of its last event. So what is left of other logs may begin earlier, and must be left out.
//! - W2. While a snapshot is being prepared the window is held: nothing is dropped between the moment when
//!   the snapshot asks the scheduler for the present state and the moment when it takes the blocks. Without
//!   that, the window might begin after the state that is to complete it. If so much comes meanwhile that
//!   something must be dropped ([`MOST_HELD`]), the snapshot sees that the window begins later, and begins
//!   anew.
//! - W3. Blocks do not change when they are complete. A snapshot shares them, and copies the open ones.
//!
//! What dropped blocks say about goroutines that may live on is remembered ([`Memory`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::memory::Memory;
use crate::sched::event::reader::OUTSIDE;
use crate::sched::event::record::Record;

/// A block is complete when it has this many records; fewer if few bytes are allowed, so that the window has
/// at least 16 blocks.
const BLOCK: usize = 512;
/// It is complete, too, if it began this long ago (ns): records have only the lower bits of their times,
/// which a block complements for all its records by the time when they were added.
const LONGEST_BLOCK: u64 = 3_600_000_000_000;

/// While the window is held it may have this much more than it should (bytes), or twice as much as it should
/// if that is more. It is held for milliseconds, or for seconds if there are millions of goroutines.
const MOST_HELD: usize = 64 << 20;

/// The oldest event and the amount of memory that the window keeps.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) age: Duration,
    pub(super) bytes: usize,
}

/// Records of one log.
#[derive(Default)]
struct Open {
    records: Vec<Record>,
    /// The times (ns) at which the first and the last of them were added, and of the last event.
    began: u64,
    added: u64,
    last: u64,
}

#[derive(Clone)]
pub(in crate::trace) struct Block {
    pub(super) log: u32,
    pub(super) records: Arc<Vec<Record>>,
    /// About the present when they were added (ns), and the time of the last event.
    pub(super) added: u64,
    last: u64,
}

impl Block {
    fn bytes(&self) -> usize {
        self.records.len() * size_of::<Record>()
    }
}

pub(in crate::trace) struct Window {
    limits: Limits,
    open: HashMap<u32, Open>,
    /// By the times of their last events, and by numbers that tell them apart.
    complete: BTreeMap<(u64, u64), Block>,
    next_number: u64,
    bytes: usize,
    complete_from: u64,
    /// How many snapshots are being prepared.
    held: usize,
    pub(super) memory: Memory,
}

impl Window {
    /// A window that begins at `now` (ns).
    pub(super) fn new(limits: Limits, now: u64) -> Window {
        Window {
            limits,
            open: HashMap::new(),
            complete: BTreeMap::new(),
            next_number: 0,
            bytes: 0,
            complete_from: now,
            held: 0,
            memory: Memory::default(),
        }
    }

    /// Adds the next records of a log. `now` (ns) is about the present.
    pub(in crate::trace) fn add(&mut self, log: u32, records: &[Record], now: u64) {
        let open = self.open.entry(log).or_default();
        if !open.records.is_empty() && now - open.began > LONGEST_BLOCK {
            self.close(log);
        }
        let open = self.open.entry(log).or_default();
        if open.records.is_empty() {
            open.records.reserve_exact(records.len());
            open.began = now;
        }
        open.records.extend_from_slice(records);
        open.added = now;
        open.last = open.last.max(last_event(log, records, now).unwrap_or(0));
        self.bytes += size_of_val(records);
        if open.records.len() >= (self.limits.bytes / size_of::<Record>() / 16).clamp(16, BLOCK) {
            self.close(log);
        }
    }

    /// Completes the open block of a log. Details without their event stay.
    fn close(&mut self, log: u32) {
        let Some(open) = self.open.get_mut(&log) else { return };
        let end = open.records.iter().rposition(|record| !record.is_detail()).map_or(0, |index| index + 1);
        if end == 0 {
            return;
        }
        let details = open.records.split_off(end);
        let mut records = std::mem::replace(&mut open.records, details);
        records.shrink_to_fit();
        self.next_number += 1;
        let Open { added, last, .. } = *open;
        open.began = added;
        self.complete
            .insert((last, self.next_number), Block { log, records: Arc::new(records), added, last });
    }

    /// Drops what is too old and what is too much.
    pub(in crate::trace) fn trim(&mut self, now: u64) {
        let mut bytes = self.limits.bytes;
        if self.held > 0 {
            bytes = bytes.saturating_add(bytes.max(MOST_HELD));
        } else {
            let oldest = now.saturating_sub(self.limits.age.as_nanos() as u64);
            while self.complete.keys().next().is_some_and(|&(last, _)| last < oldest) {
                self.drop_oldest();
            }
        }
        while self.bytes > bytes {
            if self.complete.is_empty() {
                self.open.keys().copied().collect::<Vec<u32>>().into_iter().for_each(|log| self.close(log));
            }
            if !self.drop_oldest() {
                return;
            }
        }
    }

    fn drop_oldest(&mut self) -> bool {
        let Some((_, block)) = self.complete.pop_first() else { return false };
        self.bytes -= block.bytes();
        self.complete_from = self.complete_from.max(block.last);
        self.memory.learn(&block);
        true
    }

    /// Events were lost: the window begins anew, at `now` (ns).
    pub(in crate::trace) fn lose(&mut self, now: u64) {
        while self.drop_oldest() {}
        self.open.clear();
        (self.bytes, self.complete_from) = (0, now);
    }

    /// Of all events after this time (ns), none is missing.
    pub(super) fn complete_from(&self) -> u64 {
        self.complete_from
    }

    /// Until [`release`](Window::release), nothing is dropped (W2).
    pub(super) fn hold(&mut self) {
        self.held += 1;
    }

    pub(super) fn release(&mut self) {
        self.held = self.held.saturating_sub(1);
    }

    /// All records: those of one log in order.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let open = self.open.iter().filter(|(_, open)| !open.records.is_empty()).map(|(&log, open)| {
            let Open { added, last, .. } = *open;
            Block { log, records: Arc::new(open.records.clone()), added, last }
        });
        self.complete.values().cloned().chain(open).collect()
    }
}

/// The time of the latest event among the next records of a log. Only in the log [`OUTSIDE`] it need not be
/// the last one.
fn last_event(log: u32, records: &[Record], now: u64) -> Option<u64> {
    let mut events = records.iter().rev().filter(|record| !record.is_detail()).map(|record| record.time(now));
    match log {
        OUTSIDE => events.max(),
        _ => events.next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::event::record::Kind;

    const SECOND: u64 = 1_000_000_000;

    fn window(age: u64, bytes: usize) -> Window {
        Window::new(Limits { age: Duration::from_secs(age), bytes }, 0)
    }

    fn event(time: u64) -> Record {
        Record::new(Kind::Yield, 0, time, 1)
    }

    fn times(window: &Window, log: u32) -> Vec<u64> {
        let blocks = window.blocks();
        let records = blocks.iter().filter(|block| block.log == log).flat_map(|block| block.records.iter());
        records.map(|record| record.value()).collect()
    }

    #[test]
    fn what_is_kept_is_whole_and_as_old_as_it_should_be() {
        let mut window = window(10, usize::MAX);
        for second in 1..=100 {
            let now = second * SECOND;
            window.add(3, &[event(now); 100], now);
            window.trim(now);
        }
        let kept = times(&window, 3);
        let from = window.complete_from();
        assert!((80 * SECOND..=90 * SECOND).contains(&from), "{from}");
        // Every event after that time is there.
        let expected = (1..=100).map(|second| second * SECOND).filter(|&time| time > from).count() * 100;
        assert_eq!(kept.iter().filter(|&&time| time > from).count(), expected);
    }

    #[test]
    fn bytes_count_more_than_age_also_if_no_block_is_complete() {
        let mut window = window(1000, 1600);
        for time in 1..=40 {
            for log in 0..10 {
                window.add(log, &[event(time * SECOND)], time * SECOND);
            }
            window.trim(time * SECOND);
            let all: usize = (0..10).map(|log| times(&window, log).len()).sum();
            assert!(all <= 100, "{all} records of 16 bytes");
        }
        let from = window.complete_from();
        for log in 0..10 {
            let kept = times(&window, log).into_iter().filter(|&time| time > from).count() as u64;
            assert_eq!(kept, 40 - from / SECOND, "log {log}");
        }
    }

    #[test]
    fn the_oldest_goes_first_whatever_its_log() {
        let mut window = window(1000, 1000 * 16);
        // One read brings a lot of each log.
        for log in 0..4 {
            for time in 1..=1000 {
                window.add(log, &[event(time)], 1000);
            }
        }
        window.trim(1000);
        let from = window.complete_from();
        assert!((750..900).contains(&from), "{from}");
        for log in 0..4 {
            let kept = times(&window, log).into_iter().filter(|&time| time > from).count() as u64;
            assert_eq!(kept, 1000 - from, "log {log}");
        }
    }

    #[test]
    fn nothing_is_dropped_while_the_window_is_held() {
        let mut window = window(1, 16);
        window.hold();
        window.add(1, &[event(1); 1000], 1);
        window.trim(100 * SECOND);
        assert_eq!((times(&window, 1).len(), window.complete_from()), (1000, 0));
        window.release();
        window.trim(100 * SECOND);
        assert_eq!((times(&window, 1).len(), window.complete_from()), (0, 1));
    }

    #[test]
    fn a_held_window_has_a_limit_too() {
        let mut window = window(1, 16);
        window.hold();
        let most = 16 + MOST_HELD;
        for time in 1..=200 {
            window.add(1, &[event(time); 50_000], time);
            window.trim(time);
            let came = time as usize * 50_000 * size_of::<Record>();
            assert!(window.bytes <= most);
            assert_eq!(window.complete_from() > 0, came > most, "{came} bytes");
        }
    }

    #[test]
    fn events_keep_their_details() {
        let mut window = window(1, 0);
        let detail = Record::new(Kind::Frame, 0, 0, 7);
        window.add(1, &[event(1), detail], 1);
        window.trim(1);
        // The detail belongs to an event that has not come.
        assert_eq!(times(&window, 1), [0]);
        window.add(1, &[event(2)], 2);
        assert_eq!(times(&window, 1), [0, 2]);
    }

    #[test]
    fn times_outside_need_not_be_in_order() {
        let mut window = window(1, 0);
        window.add(OUTSIDE, &[event(9), event(5)], 9);
        window.trim(9);
        assert_eq!(window.complete_from(), 9);
    }
}
