//! What is known of a descriptor number: its kind, what epoll watches it for, and that calls on it wait
//! without a limit. It holds until the number stands for another open file, or its flags change.
//!
//! Threads ask the kernel at any time, while others close the number and change its flags. So what a thread
//! has found out may be old before it is noted:
//!
//! - K1. **Another open file.** A thread that gives a number to another open file advances the number's
//!   generation, which also erases what is known. A thread that asks reads the generation first, and notes
//!   the answer only if it is still the same. There is no lock, so that a signal handler may close.
//! - K2. **Flags and timeouts.** A thread that changes them advances an epoch afterwards, unless nothing is
//!   known of the number. A thread that asks counts itself in the number's word, reads the epoch, asks, and
//!   notes the answer with that epoch. Fences separate the count from the question, and the change from the
//!   look at the word. So either the changer sees the asker, and advances the epoch: then the answer is old.
//!   Or the asker has counted itself after that look: then its question comes after the change.
//!
//! Loom's models of this file are in `loom/src/transparent/known_models.rs`.

use crate::base::atomic::{AtomicU64, Ordering, fence};

/// What a number's generation was at some moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation(u64);

/// A word with the kind, the directions that epoll watches the number for, and the generation.
#[derive(Clone, Copy)]
pub(super) struct Facts(u64);

impl Facts {
    const KIND: u64 = 0xff;
    const WATCHED_FOR: u64 = 0xff00;
    const WATCHED_FOR_SHIFT: u32 = 8;
    const GENERATION_SHIFT: u32 = 16;

    /// The number of a kind; 0 if it is not known.
    #[inline]
    pub(super) fn kind(self) -> u8 {
        (self.0 & Facts::KIND) as u8
    }

    /// A bit for each direction that epoll watches the number for; 0 if that is not known.
    pub(super) fn watched_for(self) -> u8 {
        (self.0 >> Facts::WATCHED_FOR_SHIFT) as u8
    }

    pub(super) fn generation(self) -> Generation {
        Generation(self.0 >> Facts::GENERATION_SHIFT)
    }

    #[must_use]
    fn with_kind(self, kind: u8) -> Facts {
        Facts(self.0 & !Facts::KIND | u64::from(kind))
    }

    #[must_use]
    fn with_watched_for(self, directions: u8) -> Facts {
        Facts(self.0 & !Facts::WATCHED_FOR | u64::from(directions) << Facts::WATCHED_FOR_SHIFT)
    }

    /// Of the next generation, of which nothing is known.
    #[must_use]
    fn next(self) -> Facts {
        Facts(self.generation().0.wrapping_add(1) << Facts::GENERATION_SHIFT)
    }
}

/// A word with the epoch at which calls in a direction waited without a limit (0 if that is not known), the
/// generation, and how many callers are asking the kernel.
#[derive(Clone, Copy)]
struct Limit(u64);

impl Limit {
    const ASKING: u64 = 0xff;
    const GENERATION_SHIFT: u32 = 8;
    const GENERATION: u64 = 0xffff;
    const EPOCH_SHIFT: u32 = 24;

    fn asking(self) -> u64 {
        self.0 & Limit::ASKING
    }

    fn generation(self) -> u64 {
        self.0 >> Limit::GENERATION_SHIFT & Limit::GENERATION
    }

    #[inline]
    fn unlimited_since(self) -> u64 {
        self.0 >> Limit::EPOCH_SHIFT
    }

    fn is_known(self) -> bool {
        self.unlimited_since() != 0 || self.asking() != 0
    }

    /// With one more that asks. `None`: there are too many already.
    #[must_use]
    fn begin(self) -> Option<Limit> {
        (self.asking() < Limit::ASKING).then_some(Limit(self.0 + 1))
    }

    /// With one less that asks, and its answer.
    #[must_use]
    fn end(self, unlimited_since: u64) -> Limit {
        let rest = self.0 & (Limit::GENERATION << Limit::GENERATION_SHIFT) | (self.asking() - 1);
        Limit(unlimited_since << Limit::EPOCH_SHIFT | rest)
    }

    #[must_use]
    fn next(self) -> Limit {
        Limit((self.generation().wrapping_add(1) & Limit::GENERATION) << Limit::GENERATION_SHIFT)
    }
}

/// Counts the changes of flags and timeouts, from 1 on. A number's word has room for 2^40 of them; after
/// that, nothing is known any more.
pub(super) struct Epoch(pub(super) AtomicU64);

impl Epoch {
    /// Acquire pairs with the release in `advance`: whoever sees the new epoch sees the change.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Called after a change.
    pub(super) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// What is known of a number; zeros for nothing. The fields are for the constructors: loom's are not const.
pub(super) struct Known {
    pub(super) facts: AtomicU64,
    /// For each direction.
    pub(super) limits: [AtomicU64; 2],
}

/// A caller that asks whether calls wait without a limit.
#[must_use]
pub(super) struct Asking {
    direction: usize,
    generation: u64,
    epoch: u64,
}

/// Changes a word, unless `change` says that it stays as it is.
fn update(word: &AtomicU64, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, change).ok()
}

impl Known {
    /// Acquire: what the caller asks the kernel afterwards is not asked before.
    #[inline]
    pub(super) fn facts(&self) -> Facts {
        Facts(self.facts.load(Ordering::Acquire))
    }

    fn note(&self, generation: Generation, change: impl Fn(Facts) -> Facts) {
        update(&self.facts, |now| (Facts(now).generation() == generation).then(|| change(Facts(now)).0));
    }

    /// Notes a kind that was found after the look at the generation (K1).
    pub(super) fn note_kind(&self, generation: Generation, kind: u8) {
        self.note(generation, |facts| facts.with_kind(kind));
    }

    /// Notes what epoll was told after the look at the generation (K1).
    pub(super) fn note_watched_for(&self, generation: Generation, directions: u8) {
        self.note(generation, |facts| facts.with_watched_for(directions));
    }

    /// The number is another open file's, or nobody's. Safe in a signal handler.
    pub(super) fn forget(&self) {
        update(&self.facts, |now| Some(Facts(now).next().0));
        for limit in &self.limits {
            update(limit, |now| Some(Limit(now).next().0));
        }
    }

    /// epoll does not watch the number for us any more. The open file is the same.
    pub(super) fn forget_watch(&self) {
        update(&self.facts, |now| Some(Facts(now).next().with_kind(Facts(now).kind()).0));
    }

    /// Whether calls in that direction wait without a limit, as far as the changes until `epoch` go.
    #[inline]
    pub(super) fn waits_without_limit(&self, direction: usize, epoch: u64) -> bool {
        Limit(self.limits[direction].load(Ordering::Relaxed)).unlimited_since() == epoch
    }

    /// Called before the kernel is asked about flags and timeouts (K2). `None`: the answer is not noted.
    pub(super) fn begin_asking(&self, direction: usize, epoch: &Epoch) -> Option<Asking> {
        let before = update(&self.limits[direction], |now| Some(Limit(now).begin()?.0))?;
        fence(Ordering::SeqCst); // pairs with that in `may_be_known`
        Some(Asking { direction, generation: Limit(before).generation(), epoch: epoch.now() })
    }

    /// Notes the answer: whether calls wait without a limit.
    pub(super) fn end_asking(&self, asking: Asking, unlimited: bool) {
        let since = if unlimited { asking.epoch } else { 0 };
        update(&self.limits[asking.direction], |now| {
            (Limit(now).generation() == asking.generation).then(|| Limit(now).end(since).0)
        });
    }

    /// Whether anybody knows, or is about to know, something of flags and timeouts. Called after a change of
    /// them (K2).
    pub(super) fn may_be_known(&self) -> bool {
        fence(Ordering::SeqCst); // pairs with that in `begin_asking`
        self.limits.iter().any(|limit| Limit(limit.load(Ordering::SeqCst)).is_known())
    }
}
