//! The CPU time for which goroutines with the same labels were charged, ended ones included.
//!
//! A charge happens inside the runtime, where nothing may be allocated. So it adds to a counter in the set of
//! labels, and links the set into a list of those that have uncollected time; the list owns a reference. A
//! report collects: it moves the times into a table. With many different sets (one for each request), those
//! that make new ones collect now and then, so that the list stays short. The table is bounded, too: from
//! [`MOST_SETS`] on, time of further sets counts as that of goroutines without labels.
//!
//! - T1. A set whose `listed` is true is in the list, or a collector has taken it from there and will see all
//!   that was added before `listed` was set: the collector clears `listed` first and takes the time after; a
//!   charge adds the time first and sets `listed` after. All four are read-modify-writes, which see the
//!   latest value.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::labels::{Labels, Pair, Set, Word};

/// The most sets of labels whose time is kept apart.
pub(crate) const MOST_SETS: usize = 1000;
/// With this many sets in the list, the maker of a new set collects.
const MOST_LISTED: usize = 256;

/// A set's part in this.
#[derive(Debug, Default)]
pub(super) struct Uncollected {
    nanos: AtomicU64,
    listed: AtomicBool,
    /// The next set in the list.
    next: AtomicPtr<Set>,
}

/// The first set in the list.
static LIST: AtomicPtr<Set> = AtomicPtr::new(ptr::null_mut());
static LISTED: AtomicUsize = AtomicUsize::new(0);

/// The time (ns) of one set.
#[derive(Default)]
struct Time {
    charged: u64,
    /// What running goroutines will be charged with: used during a report.
    pending: u64,
    /// What reports have said. A charge may fall between the reading of the two others, but what is reported
    /// never becomes less.
    reported: u64,
}

type Table = HashMap<Box<[Pair]>, Time>;

/// The time of that set; `None` if there are too many others.
fn time_of<'a>(table: &'a mut Table, pairs: &[Pair]) -> Option<&'a mut Time> {
    if !table.contains_key(pairs) {
        if table.len() >= MOST_SETS {
            return None;
        }
        table.insert(pairs.into(), Time::default());
    }
    table.get_mut(pairs)
}

/// A std mutex, which is held for microseconds, with allocations in between.
static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// Charges the set that `labels` points to, if any. The caller owns the goroutine, which runs or stops.
pub(super) fn charge(labels: &Word, nanos: u64) {
    // SAFETY: the caller owns the goroutine, and the result is used before the goroutine goes on.
    let Some(set) = (unsafe { labels.peek() }) else { return };
    let own = &set.uncollected;
    own.nanos.fetch_add(nanos, Ordering::AcqRel);
    if own.listed.swap(true, Ordering::AcqRel) {
        return; // T1
    }
    // SAFETY: the pointer is that of an Arc, of which the goroutine has a reference.
    unsafe { Arc::increment_strong_count(set) };
    LISTED.fetch_add(1, Ordering::Relaxed);
    let mut first = LIST.load(Ordering::Relaxed);
    loop {
        own.next.store(first, Ordering::Relaxed);
        // Release: the collector sees `next`.
        match LIST.compare_exchange_weak(
            first,
            ptr::from_ref(set).cast_mut(),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => return,
            Err(other) => first = other,
        }
    }
}

/// Called by the maker of a set, outside of the runtime.
pub(super) fn collect_if_many() {
    if LISTED.load(Ordering::Relaxed) >= MOST_LISTED
        && let Ok(mut table) = TABLE.try_lock()
    {
        collect(table.get_or_insert_default());
    }
}

fn collect(table: &mut Table) {
    let mut next = LIST.swap(ptr::null_mut(), Ordering::Acquire);
    while !next.is_null() {
        LISTED.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the list's reference is ours now.
        let set = unsafe { Arc::from_raw(next) };
        next = set.uncollected.next.load(Ordering::Relaxed);
        set.uncollected.listed.swap(false, Ordering::AcqRel);
        let nanos = set.uncollected.nanos.swap(0, Ordering::AcqRel);
        if let Some(time) = time_of(table, set.pairs()) {
            time.charged += nanos;
        }
    }
}

/// The time (ns) of each set of labels so far, ended goroutines included. `pending`: what running goroutines
/// will be charged with. Not inside the runtime.
pub(crate) fn all(pending: &[(Labels, u64)]) -> Vec<(Labels, u64)> {
    let mut table: MutexGuard<'_, Option<Table>> = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let table = table.get_or_insert_default();
    collect(table);
    for (labels, nanos) in pending.iter().filter(|(labels, _)| !labels.is_empty()) {
        if let Some(time) = time_of(table, labels.pairs()) {
            time.pending += nanos;
        }
    }
    let report = table.iter_mut().map(|(pairs, time)| {
        time.reported = time.reported.max(time.charged + std::mem::take(&mut time.pending));
        (Labels::of(pairs.clone()), time.reported)
    });
    report.collect()
}

#[cfg(test)]
mod tests {
    use super::{Labels, MOST_SETS, Table, Word, all, charge, time_of};

    fn labels(key: &str, value: &str) -> Labels {
        Labels::NONE.with([(key.into(), value.into())])
    }

    fn time(pending: &[(Labels, u64)], of: &Labels) -> Option<u64> {
        all(pending).iter().find(|(found, _)| found.pairs() == of.pairs()).map(|&(_, nanos)| nanos)
    }

    #[test]
    fn equal_sets_are_one_and_ended_ones_keep_their_time() {
        let (one, other) = (labels("label_times", "1"), labels("label_times", "1"));
        let word = Word::new(one.clone());
        charge(&word, 5);
        charge(&word, 6);
        assert!(one.references() <= 3, "listed twice");
        assert_eq!(time(&[], &other), Some(11));
        assert_eq!(one.references(), 2, "still in the list");
        charge(&Word::new(other.clone()), 4);
        drop(word);
        assert_eq!(time(&[], &one), Some(15));
        assert_eq!((one.references(), other.references()), (1, 1));
        charge(&Word::new(Labels::NONE), 7);
        assert_eq!(time(&[], &Labels::NONE), None);
    }

    #[test]
    fn pending_time_is_reported_and_no_report_says_less() {
        let running = labels("label_times", "2");
        let pending = |nanos| [(running.clone(), nanos)];
        assert_eq!(time(&pending(8), &running), Some(8));
        assert_eq!(time(&pending(3), &running), Some(8));
        charge(&Word::new(running.clone()), 10);
        assert_eq!(time(&pending(1), &running), Some(11));
        assert_eq!(time(&[], &running), Some(11));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut table = Table::new();
        for number in 0..MOST_SETS + 10 {
            let of_this = labels("number", &number.to_string());
            assert_eq!(time_of(&mut table, of_this.pairs()).is_some(), number < MOST_SETS);
        }
        assert!(time_of(&mut table, labels("number", "0").pairs()).is_some());
    }

    #[test]
    fn sets_of_ended_goroutines_are_collected_by_the_makers_of_others() {
        let first = labels("label_times", "first");
        charge(&Word::new(first.clone()), 1);
        for number in 0..2 * super::MOST_LISTED {
            charge(&Word::new(labels("label_times many", &number.to_string())), 1);
        }
        // (A report of another test may have the table just now; the next maker will find it free.)
        while first.references() != 1 {
            let _collects = labels("label_times", "maker");
        }
    }
}
