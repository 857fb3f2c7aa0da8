//! Labels: pairs of key and value by which reports and profiles group goroutines, as Go's `pprof.Labels`.
//!
//! A set of labels never changes. The goroutines that have the same set share it and own one reference each;
//! a goroutine without labels has a null pointer ([`Word`]), so it pays for one load when it spawns and when
//! it ends.
//!
//! - L1. The word of a goroutine owns a reference to what it points to. Only the goroutine itself changes it,
//!   outside the runtime; before it starts and after it has ended, the owner of its packet does.
//! - L2. The goroutine changes the word first, lets readers finish (`word/pinned_readers.rs`), and then gives
//!   up the reference to the former set.
//!
//! These may therefore read the word, and take a reference of their own to the set ([`Word::get`]):
//!
//! - the goroutine itself;
//! - a signal handler on the thread of the M whose `current` the goroutine is (it runs, or is about to), also
//!   inside the runtime: the M changes `current` before others get the goroutine. The word is one machine
//!   word, and it is changed before the reference is given up, so the set that it points to has an owner. To
//!   take a reference is one atomic addition. To drop one is not allowed there, because the last drop frees
//!   memory;
//! - the owner of a goroutine that does not run (G2 in `types/g.rs`);
//! - a pinned reader.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::label_times::{self, Uncollected};
use crate::sched::word::pinned_readers;

/// One label.
#[derive(Debug, PartialEq, Eq, Hash, Clone)]
pub(crate) struct Pair {
    pub(crate) key: Box<str>,
    pub(crate) value: Box<str>,
}

/// A set that is not empty.
#[derive(Debug)]
pub(crate) struct Set {
    /// Sorted by key; each key occurs once.
    pairs: Box<[Pair]>,
    /// CPU time that was charged to it.
    pub(super) uncollected: Uncollected,
}

impl Set {
    pub(super) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }
}

/// A reference to a set, or none: no labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels(Option<Arc<Set>>);

impl Labels {
    pub(crate) const NONE: Labels = Labels(None);

    /// These labels and, for keys that they do not have yet or have with another value, those of `added`. Of
    /// two with the same key the later one counts.
    pub(crate) fn with(&self, added: impl IntoIterator<Item = (Box<str>, Box<str>)>) -> Labels {
        let mut pairs: Vec<Pair> = self.pairs().to_vec();
        for (key, value) in added {
            match pairs.binary_search_by(|pair| pair.key.cmp(&key)) {
                Ok(index) => pairs[index].value = value,
                Err(index) => pairs.insert(index, Pair { key, value }),
            }
        }
        label_times::collect_if_many();
        Labels::of(pairs.into())
    }

    /// The set of these pairs, which are sorted, each key once.
    pub(super) fn of(pairs: Box<[Pair]>) -> Labels {
        let some = !pairs.is_empty();
        Labels(some.then(|| Arc::new(Set { pairs, uncollected: Uncollected::default() })))
    }

    /// Sorted by key.
    pub(crate) fn pairs(&self) -> &[Pair] {
        self.0.as_ref().map_or(&[], |set| &set.pairs)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    #[cfg(test)]
    pub(super) fn references(&self) -> usize {
        self.0.as_ref().map_or(0, Arc::strong_count)
    }

    pub(crate) fn into_pointer(self) -> *mut Set {
        self.0.map_or(ptr::null_mut(), |set| Arc::into_raw(set).cast_mut())
    }

    /// # Safety
    /// The pointer came from [`into_pointer`](Labels::into_pointer), and its reference becomes the caller's.
    pub(crate) unsafe fn from_pointer(set: *mut Set) -> Labels {
        // SAFETY: the caller's promise.
        Labels((!set.is_null()).then(|| unsafe { Arc::from_raw(set) }))
    }
}

/// Labels that a goroutine lends to another one, without a reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent(*mut Set);

impl Lent {
    /// The labels, with a reference of the caller's own.
    ///
    /// # Safety
    /// The lender owns a reference still: its labels are the same, or it has put them aside to take them up
    /// again.
    pub(crate) unsafe fn get(self) -> Labels {
        if self.0.is_null() {
            return Labels::NONE;
        }
        // SAFETY: the caller's promise.
        unsafe {
            Arc::increment_strong_count(self.0);
            Labels::from_pointer(self.0)
        }
    }
}

/// The labels of a goroutine: see L1.
#[derive(Debug)]
pub(crate) struct Word(AtomicPtr<Set>);

impl Word {
    #[inline]
    pub(crate) fn new(labels: Labels) -> Word {
        Word(AtomicPtr::new(labels.into_pointer()))
    }

    /// The labels, with a reference of the caller's own. It is async-signal-safe; to drop the result is not.
    ///
    /// # Safety
    /// The caller is one of those that the file's head lists.
    #[inline]
    pub(crate) unsafe fn get(&self) -> Labels {
        // Acquire: the set is complete. Pairs with `replace`.
        let set = self.0.load(Ordering::Acquire);
        if set.is_null() {
            return Labels::NONE;
        }
        // SAFETY: the word's own reference keeps the set alive meanwhile.
        unsafe {
            Arc::increment_strong_count(set);
            Labels::from_pointer(set)
        }
    }

    /// Lends the labels to another goroutine. The caller is the goroutine itself.
    #[inline(always)]
    pub(crate) fn lend(&self) -> Lent {
        Lent(self.0.load(Ordering::Relaxed))
    }

    /// The set, without a reference.
    ///
    /// # Safety
    /// The caller is the goroutine's owner, or its signal handler, and uses the result only while it is.
    pub(super) unsafe fn peek<'a>(&self) -> Option<&'a Set> {
        // SAFETY: the word's own reference keeps the set alive (L1, L2).
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Called by the goroutine: puts `labels` into place, and returns the former ones, which nobody reads
    /// any more without a reference (L2).
    pub(crate) fn replace(&self, labels: Labels) -> Labels {
        let former = self.0.swap(labels.into_pointer(), Ordering::AcqRel);
        pinned_readers::let_them_finish();
        // SAFETY: the word owned a reference, which is ours now.
        unsafe { Labels::from_pointer(former) }
    }
}

impl Drop for Word {
    #[inline]
    fn drop(&mut self) {
        let set = *self.0.get_mut();
        if !set.is_null() {
            // SAFETY: as in `replace`.
            drop(unsafe { Labels::from_pointer(set) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Labels, Word};
    use std::sync::Arc;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::NONE.with(pairs.iter().map(|&(key, value)| (key.into(), value.into())))
    }

    fn texts(labels: &Labels) -> Vec<(&str, &str)> {
        labels.pairs().iter().map(|pair| (&*pair.key, &*pair.value)).collect()
    }

    #[test]
    fn later_labels_win_and_keys_are_sorted() {
        let first = labels(&[("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!(texts(&first), [("a", "2"), ("b", "3")]);
        let both = first.with([("a".into(), "4".into()), ("c".into(), "5".into())]);
        assert_eq!(texts(&both), [("a", "4"), ("b", "3"), ("c", "5")]);
        assert_eq!(texts(&first), [("a", "2"), ("b", "3")]);
        assert!(labels(&[]).is_empty());
    }

    #[test]
    fn each_holder_owns_one_reference() {
        let set = labels(&[("a", "1")]);
        let count = || Arc::strong_count(set.0.as_ref().unwrap());
        let word = Word::new(set.clone());
        assert_eq!(count(), 2);
        // SAFETY: the word is ours.
        let read = unsafe { word.get() };
        assert_eq!((count(), texts(&read)), (3, vec![("a", "1")]));
        drop((read, word.replace(Labels::NONE)));
        assert_eq!(count(), 1);
        drop(word.replace(set.clone()));
        drop(word);
        assert_eq!(count(), 1);
    }
}
