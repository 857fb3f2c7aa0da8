//! Caches for the slots of ended goroutines. Each P keeps some slots for itself ([`Local`]); the rest is
//! shared. Growable slots are taken first: while they suffice, every stack can grow.
//!
//! All functions are called inside the runtime: on g0, in a section, or on a thread that runs no goroutines.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::size::{self, CLASSES, Need, SizeClass};
use super::slot::Slot;
use crate::base::deque::PtrDeque;
use crate::base::lock::{Lock, Rank, Ranked};
use crate::base::prefetch;

/// A P keeps at most this many slots of a class; beyond that, half of them go to the shared list.
const PER_P: usize = 64;

/// Of the slots that a busy P has at the end of a second, it keeps this many of a class. The others may have
/// deep stacks, which the housekeeper gives back if no P needs them.
const KEPT: usize = 4;

/// How many slots are trimmed at a time. They are unavailable meanwhile.
const TRIM_BATCH: usize = 16;

static SHARED: [Lock<Shared>; CLASSES] = [const { Lock::new(Shared::new()) }; CLASSES];

/// The number of growable slots in the shared lists. A P that has none of its own reads it before it takes
/// the lock: in a crowd there is none.
static SHARED_GROWABLE: AtomicUsize = AtomicUsize::new(0);

/// Counts the passes of the housekeeper ([`end_epoch`]).
static EPOCH: AtomicU32 = AtomicU32::new(1);

/// The slots of one class that no P keeps for itself.
struct Shared {
    /// Slots that were not trimmed since their goroutine ended. The most recently used are at the back, and
    /// taken first.
    fresh: PtrDeque<Slot>,
    trimmed: PtrDeque<Slot>,
    /// How many of the fresh ones, counted from the front, were not needed since the last trimming.
    unused: usize,
}

impl Ranked for Shared {
    const RANK: Rank = Rank::Alone;
}

impl Shared {
    const fn new() -> Shared {
        Shared { fresh: PtrDeque::new(), trimmed: PtrDeque::new(), unused: 0 }
    }

    fn take(&mut self) -> Option<&'static Slot> {
        let slot = self.fresh.pop_back().or_else(|| self.trimmed.pop_back());
        self.unused = self.unused.min(self.fresh.len());
        slot
    }

    /// Keeps a slot that was just in use. If there is no memory to note it, it is lost: the goroutine has
    /// ended, and nothing else may fail because of it.
    fn put(&mut self, slot: &'static Slot) {
        let _kept = self.fresh.try_push_back(slot);
    }

    /// Keeps a slot that was not in use for about an epoch: the next trimming may have it.
    fn put_unused(&mut self, slot: &'static Slot) {
        self.unused += usize::from(self.fresh.try_push_front(slot));
    }

    /// Called before the lock is released, if this is the growable class.
    fn count(&self, class: SizeClass) {
        if class.is_growable() {
            SHARED_GROWABLE.store(self.fresh.len() + self.trimmed.len(), Ordering::Relaxed);
        }
    }
}

/// One list for each [`SizeClass::cache_index`].
type Lists = [PtrDeque<Slot>; 3];

/// The lists have their memory from the start: when the first slot is put there, none may be left.
fn new_lists() -> Lists {
    [(); 3].map(|()| PtrDeque::with_room())
}

/// A P's own slots. The owner of the P alone uses it.
pub(crate) struct Local {
    lists: Lists,
    /// The epoch in which a slot was last put here.
    epoch: u32,
}

impl Local {
    pub(crate) fn new() -> Local {
        Local { lists: new_lists(), epoch: 0 }
    }

    /// Takes a slot of an ended goroutine from the P's own or the shared ones. `None`: a new one has to be
    /// made, growable if possible.
    #[inline]
    pub(crate) fn take(&mut self, need: Need) -> Option<&'static Slot> {
        if need.grows {
            if let Some(slot) = self.take_cached(SizeClass::GROWABLE, 0) {
                return Some(slot);
            }
            if size::growable_left() != 0 {
                return None;
            }
        }
        match need.class.cache_index() {
            Some(list) => self.take_cached(need.class, list),
            None => take_from(need.class),
        }
    }

    #[inline]
    fn take_cached(&mut self, class: SizeClass, list: usize) -> Option<&'static Slot> {
        let own = &mut self.lists[list];
        let slot = match own.pop_back() {
            None => refill(own, class)?,
            Some(slot) => slot,
        };
        if let Some(next) = own.back() {
            // The next spawn on this P writes these cache lines first.
            for offset in [0, 64, -64] {
                prefetch::line(next.header().wrapping_add_signed(offset));
            }
        }
        Some(slot)
    }

    /// Keeps the slot of an ended goroutine.
    #[inline]
    pub(crate) fn put(&mut self, slot: &'static Slot) {
        let class = slot.class();
        let Some(list) = class.cache_index() else { return put_shared(slot) };
        let own = &mut self.lists[list];
        // Without memory for the list the slot is lost: its goroutine may still run on it, so that no other P
        // may take it.
        let _kept = own.try_push_back(slot);
        if own.len() > PER_P {
            spill(own, class, PER_P / 2, Shared::put);
        }
        let epoch = EPOCH.load(Ordering::Relaxed);
        if self.epoch != epoch {
            self.begin(epoch);
        }
    }

    /// The first slot of an epoch was put here.
    #[cold]
    fn begin(&mut self, epoch: u32) {
        self.epoch = epoch;
        self.shed(KEPT, Shared::put);
    }

    /// For a busy P, by its owner, now and then: gives up what it kept although it needed no slot for a
    /// while. Never the last slot: its goroutine may still be about to leave it.
    #[inline]
    pub(crate) fn give_up_unused(&mut self) {
        let epoch = EPOCH.load(Ordering::Relaxed);
        if self.epoch != epoch && self.lists.iter().any(|own| own.len() > KEPT) {
            self.shed(KEPT, Shared::put_unused);
        }
    }

    /// Takes one of its slots, of any class.
    pub(crate) fn pop(&mut self) -> Option<&'static Slot> {
        self.lists.iter_mut().find_map(PtrDeque::pop_back)
    }

    /// Moves all slots of a retired P to the shared lists.
    pub(crate) fn flush(&mut self) {
        self.shed(0, Shared::put);
    }

    /// Moves all but the last `keep` slots of each list to the shared lists.
    fn shed(&mut self, keep: usize, put: fn(&mut Shared, &'static Slot)) {
        for own in &mut self.lists {
            let old = own.len().saturating_sub(keep);
            if let Some(class) = own.back().map(Slot::class).filter(|_| old != 0) {
                spill(own, class, old, put);
            }
        }
    }

    /// For an idle P, by the housekeeper: moves its slots to `unused` if none was put here in the epoch that
    /// has just ended. True: there are some. `unused` is empty.
    pub(crate) fn take_unused(&mut self, unused: &mut Unused, ended: u32) -> bool {
        let some =
            self.epoch != ended && self.epoch != ended + 1 && self.lists.iter().any(|own| own.len() != 0);
        if some {
            std::mem::swap(&mut self.lists, &mut unused.0);
        }
        some
    }
}

/// Slots that an idle P has not used for an epoch.
pub(crate) struct Unused(Lists);

impl Unused {
    pub(crate) fn new() -> Unused {
        Unused(new_lists())
    }

    /// Trims the slots and moves them to the shared lists.
    pub(crate) fn trim(&mut self) {
        for own in &mut self.0 {
            while trim_batch(|| own.pop_front()) {}
        }
    }
}

/// Fetches some slots for the P's list, and returns one of them.
#[cold]
fn refill(own: &mut PtrDeque<Slot>, class: SizeClass) -> Option<&'static Slot> {
    if class.is_growable() && SHARED_GROWABLE.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut shared = SHARED[class.index()].lock_inside();
    let first = shared.take()?;
    for _ in 1..PER_P / 2 {
        let Some(slot) = shared.take() else { break };
        if !own.try_push_front(slot) {
            shared.put(slot);
            break;
        }
    }
    shared.count(class);
    Some(first)
}

/// Gives the `count` oldest to the shared list, by `put`.
#[cold]
fn spill(own: &mut PtrDeque<Slot>, class: SizeClass, count: usize, put: fn(&mut Shared, &'static Slot)) {
    let mut shared = SHARED[class.index()].lock_inside();
    for _ in 0..count {
        let Some(slot) = own.pop_front() else { break };
        put(&mut shared, slot);
    }
    shared.count(class);
}

/// Takes a slot of an ended goroutine from the shared ones. `None`: a new one has to be made.
pub(crate) fn take_shared(need: Need) -> Option<&'static Slot> {
    if need.grows {
        let growable = take_from(SizeClass::GROWABLE);
        if growable.is_some() || size::growable_left() != 0 {
            return growable;
        }
    }
    take_from(need.class)
}

fn take_from(class: SizeClass) -> Option<&'static Slot> {
    let mut shared = SHARED[class.index()].lock_inside();
    let slot = shared.take();
    shared.count(class);
    slot
}

/// Puts a slot into the shared list.
pub(crate) fn put_shared(slot: &'static Slot) {
    let mut shared = SHARED[slot.class().index()].lock_inside();
    shared.put(slot);
    shared.count(slot.class());
}

/// Whether [`Local::put`] puts that slot into the P's own list, and not into the shared one.
#[inline]
pub(crate) fn is_kept_by_p(slot: &Slot) -> bool {
    slot.class().cache_index().is_some()
}

/// Begins a new epoch, and returns the one that has ended. What no P used in an epoch may be trimmed.
pub(crate) fn end_epoch() -> u32 {
    EPOCH.fetch_add(1, Ordering::Relaxed)
}

/// Trims up to a batch of slots, which belong to the caller, and moves them to the shared list of their
/// class. True: there may be more.
fn trim_batch(mut next: impl FnMut() -> Option<&'static Slot>) -> bool {
    let mut batch = [const { None }; TRIM_BATCH];
    let mut count = 0;
    while count < TRIM_BATCH
        && let Some(slot) = next()
    {
        // SAFETY: it is ours, and a dead goroutine's stack is not in use.
        unsafe { slot.discard_below(slot.header()) };
        batch[count] = Some(slot);
        count += 1;
    }
    let Some(class) = batch[0].map(Slot::class) else { return false };
    let mut shared = SHARED[class.index()].lock_inside();
    batch.into_iter().flatten().for_each(|slot| _ = shared.trimmed.try_push_back(slot));
    shared.count(class);
    true
}

/// Trims the slots of ended goroutines that were not needed since the last call: they keep only their top
/// page.
pub(crate) fn trim_unused() {
    for shared in &SHARED {
        let next = || {
            let mut locked = shared.lock_inside();
            locked.unused = locked.unused.checked_sub(1)?;
            locked.fresh.pop_front()
        };
        while trim_batch(next) {}
        // All that are left count as unused until they are taken.
        let mut locked = shared.lock_inside();
        locked.unused = locked.fresh.len();
    }
}
