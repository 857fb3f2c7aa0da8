//! Caches for the slots of ended goroutines. Each P keeps some slots of the two usual sizes for itself
//! ([`Local`]); the rest is shared.
//!
//! All functions are called inside the runtime: on g0, in a section, or on a thread that runs no goroutines.

use super::size::{CLASSES, SizeClass};
use super::slot::Slot;
use crate::base::deque::PtrDeque;
use crate::base::lock::{Lock, Rank, Ranked};
use crate::base::prefetch;

/// A P keeps at most this many slots of a size; beyond that, half of them go to the shared list.
const PER_P: usize = 64;

/// How many slots are trimmed at a time. They are unavailable meanwhile.
const TRIM_BATCH: usize = 64;

static SHARED: [Lock<Shared>; CLASSES] = [const { Lock::new(Shared::new()) }; CLASSES];

/// The slots of one size that no P keeps for itself.
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
}

/// A P's own slots. The owner of the P alone uses it.
pub(crate) struct Local([PtrDeque<Slot>; 2]);

impl Local {
    pub(crate) const fn new() -> Local {
        Local([const { PtrDeque::new() }; 2])
    }

    /// Takes a slot of an ended goroutine from the P's own or the shared ones.
    #[inline]
    pub(crate) fn take(&mut self, class: SizeClass) -> Option<&'static Slot> {
        let Some(usual) = class.usual_index() else { return take_shared(class) };
        let own = &mut self.0[usual];
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
        let Some(usual) = class.usual_index() else { return put_shared(slot) };
        let own = &mut self.0[usual];
        own.push_back(slot);
        if own.len() > PER_P {
            spill(own, class, PER_P / 2);
        }
    }

    /// Moves all slots of a retired P to the shared lists.
    pub(crate) fn flush(&mut self) {
        for class in [true, false].map(SizeClass::usual) {
            if let Some(usual) = class.usual_index() {
                spill(&mut self.0[usual], class, usize::MAX);
            }
        }
    }
}

#[cold]
fn refill(own: &mut PtrDeque<Slot>, class: SizeClass) -> Option<&'static Slot> {
    let mut shared = SHARED[class.index()].lock_inside();
    for _ in 0..PER_P / 2 {
        let Some(slot) = shared.take() else { break };
        own.push_front(slot);
    }
    own.pop_back()
}

/// Gives the `count` oldest to the shared list.
#[cold]
fn spill(own: &mut PtrDeque<Slot>, class: SizeClass, count: usize) {
    let mut shared = SHARED[class.index()].lock_inside();
    for _ in 0..count {
        let Some(slot) = own.pop_front() else { break };
        shared.fresh.push_back(slot);
    }
}

/// Takes a slot of an ended goroutine from the shared ones.
pub(crate) fn take_shared(class: SizeClass) -> Option<&'static Slot> {
    SHARED[class.index()].lock_inside().take()
}

/// Puts a slot into the shared list.
pub(crate) fn put_shared(slot: &'static Slot) {
    SHARED[slot.class().index()].lock_inside().fresh.push_back(slot);
}

/// Whether [`Local::put`] puts that slot into the P's own list, and not into the shared one.
#[inline]
pub(crate) fn is_kept_by_p(slot: &Slot) -> bool {
    slot.class().usual_index().is_some()
}

/// Trims the slots of ended goroutines that were not needed since the last call: they keep only their top
/// page. Calls `between` again and again meanwhile.
pub(crate) fn trim_unused(mut between: impl FnMut()) {
    for shared in &SHARED {
        loop {
            let mut batch = [const { None }; TRIM_BATCH];
            let mut count = 0;
            let mut locked = shared.lock_inside();
            while count < TRIM_BATCH && locked.unused != 0 {
                locked.unused -= 1;
                let Some(slot) = locked.fresh.pop_front() else { break };
                batch[count] = Some(slot);
                count += 1;
            }
            drop(locked);
            if count == 0 {
                break;
            }
            for slot in batch.iter().flatten() {
                // SAFETY: taken out of the list, it is ours, and a dead goroutine's stack is not in use.
                unsafe { Slot::discard_below(slot, slot.header()) };
            }
            let mut locked = shared.lock_inside();
            batch.into_iter().flatten().for_each(|slot| locked.trimmed.push_back(slot));
            drop(locked);
            between();
        }
        // All that are left count as unused until they are taken.
        let mut locked = shared.lock_inside();
        locked.unused = locked.fresh.len();
    }
}
