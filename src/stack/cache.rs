//! Slots of ended goroutines. A P keeps some of the common sizes for itself; the rest is shared.

use std::io;

use super::size::{CLASSES, SizeClass};
use super::slab;
use crate::sched::g::G;
use crate::sched::gdeque::GDeque;
use crate::sched::glist::GList;
use crate::sched::lock::Lock;
use crate::sched::p::P;
use crate::sched::prefetch;
use crate::sys::mem::PAGE;
use crate::tls;

/// A P keeps at most so many; beyond, half of them go to the shared list.
const PER_P: usize = 64;

static SHARED: [Lock<Shared>; CLASSES] = [const { Lock::new(Shared::new()) }; CLASSES];

/// The slots of one size that no P keeps for itself.
struct Shared {
    /// Not trimmed since their goroutine ended; the most recently used are at the back, and taken first.
    fresh: GDeque,
    trimmed: GDeque,
    /// So many of the fresh ones, those at the front, were not needed since the last pass of the trimmer.
    unused: usize,
}

impl Shared {
    const fn new() -> Shared {
        Shared { fresh: GDeque::new(), trimmed: GDeque::new(), unused: 0 }
    }

    fn put(&mut self, g: &'static G) {
        self.fresh.push_back(g);
    }

    fn take(&mut self) -> Option<&'static G> {
        let g = self.fresh.pop_back().or_else(|| self.trimmed.pop_back());
        self.unused = self.unused.min(self.fresh.len());
        g
    }
}

/// A dead goroutine's slot from the P's own list, refilled from the shared one. On g0 or in a section.
#[inline]
pub(crate) fn take(p: &'static P, class: SizeClass) -> Option<&'static G> {
    let Some(cached) = class.cached() else {
        return SHARED[class.index()].lock_inside().take();
    };
    // SAFETY: the caller owns the P (P1), and the reference does not leave this function.
    let own = unsafe { &mut *p.dead[cached].get() };
    let g = match own.pop_back() {
        None => refill(own, class)?,
        Some(g) => g,
    };
    if let Some(next) = own.back() {
        prefetch::to_be_filled(next);
    }
    Some(g)
}

#[cold]
fn refill(own: &mut GDeque, class: SizeClass) -> Option<&'static G> {
    let mut shared = SHARED[class.index()].lock_inside();
    for _ in 0..PER_P / 2 {
        let Some(g) = shared.take() else { break };
        own.push_front(g);
    }
    own.pop_back()
}

/// As [`take`], for foreign threads.
pub(crate) fn take_shared(class: SizeClass) -> Option<&'static G> {
    SHARED[class.index()].lock().take()
}

/// Whether [`put`] gives that slot to the P's own list, and not to the others.
#[inline]
pub(crate) fn keeps(g: &G) -> bool {
    SizeClass::of_slot(g.slot_size()).cached().is_some()
}

/// Keeps the slot of an ended goroutine. On g0 or in a section.
#[inline]
pub(crate) fn put(p: &'static P, g: &'static G) {
    let class = SizeClass::of_slot(g.slot_size());
    let Some(cached) = class.cached() else {
        SHARED[class.index()].lock_inside().put(g);
        return;
    };
    // SAFETY: as in `take`.
    let own = unsafe { &mut *p.dead[cached].get() };
    own.push_back(g);
    if own.len() > PER_P {
        spill(own, class, PER_P / 2);
    }
}

/// Gives the `count` oldest to the shared list.
#[cold]
fn spill(own: &mut GDeque, class: SizeClass, count: usize) {
    let mut shared = SHARED[class.index()].lock_inside();
    for _ in 0..count {
        let Some(g) = own.pop_front() else { break };
        shared.put(g);
    }
}

/// Gives all that a retired P kept to the others.
pub(crate) fn flush(p: &'static P) {
    for class in [true, false].map(SizeClass::usual) {
        if let Some(cached) = class.cached() {
            // SAFETY: as in `take`.
            spill(unsafe { &mut *p.dead[cached].get() }, class, usize::MAX);
        }
    }
}

/// Puts a slot back that could not be used after all. Anywhere.
pub(crate) fn put_shared(g: &'static G) {
    SHARED[SizeClass::of_slot(g.slot_size()).index()].lock().put(g);
}

/// A slot that is not in any cache. Allocates. See [`slab::new_slot`].
pub(crate) fn make(class: SizeClass) -> io::Result<&'static G> {
    slab::new_slot(class)
}

/// Makes sure that the slot has a fresh private TLS block. Allocates the first time.
pub(crate) fn prepare_tls(g: &'static G) -> io::Result<()> {
    if !g.block_made.get() {
        // As with threads, the guard is not part of the stack that code sees.
        let stack = g.slot_start() + PAGE;
        let size = std::ptr::from_ref(g) as usize - stack;
        // SAFETY: the slot's memory for the block was reserved by the slab, is zeroed, and the slot is ours.
        unsafe { tls::block::create(g.block, stack, size)? };
        g.block_made.set(true);
    } else if g.block_stale.get() {
        // SAFETY: the slot is ours and nobody runs on its block.
        unsafe { tls::block::rebuild(g.block)? };
    } else {
        return Ok(());
    }
    g.block_stale.set(false);
    crate::sched::section::mark_block(g);
    Ok(())
}

/// Takes up to `count` slots that were not needed since the last pass.
pub(super) fn take_unused(class: usize, count: usize) -> GList {
    let list = GList::new();
    let mut shared = SHARED[class].lock();
    while list.len() < count && shared.unused != 0 {
        shared.unused -= 1;
        let Some(g) = shared.fresh.pop_front() else { break };
        list.push_back(g);
    }
    list
}

/// A pass begins to count anew which of the others are not needed.
pub(super) fn begin_pass(class: usize) {
    let mut shared = SHARED[class].lock();
    shared.unused = shared.fresh.len();
}

pub(super) fn put_trimmed(class: usize, list: &GList) {
    let mut shared = SHARED[class].lock();
    while let Some(g) = list.pop_front() {
        shared.trimmed.push_back(g);
    }
}
