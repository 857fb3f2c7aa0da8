//! Slots of ended goroutines. A P keeps some of the common sizes for itself; the rest is shared.

use std::io;

use super::size::{CLASSES, SizeClass};
use super::slab;
use crate::sched::g::G;
use crate::sched::glist::GList;
use crate::sched::lock::Lock;
use crate::sched::p::P;
use crate::sys::mem::PAGE;
use crate::tls;

/// A P keeps at most so many; beyond, half of them go to the shared list.
const PER_P: usize = 64;

static SHARED: [Lock<GList>; CLASSES] = [const { Lock::new(GList::new()) }; CLASSES];

/// A dead goroutine's slot from the P's own list, refilled from the shared one. On g0 or in a section.
#[inline]
pub(crate) fn take(p: &'static P, class: SizeClass) -> Option<&'static G> {
    let Some(cached) = class.cached() else {
        return SHARED[class.index()].lock_inside().pop_front();
    };
    p.dead[cached].pop_front().or_else(|| refill(&p.dead[cached], class))
}

#[cold]
fn refill(own: &GList, class: SizeClass) -> Option<&'static G> {
    let shared = SHARED[class.index()].lock_inside();
    for _ in 0..PER_P / 2 {
        let Some(g) = shared.pop_front() else { break };
        own.push_front(g);
    }
    own.pop_front()
}

/// As [`take`], for foreign threads.
pub(crate) fn take_shared(class: SizeClass) -> Option<&'static G> {
    SHARED[class.index()].lock().pop_front()
}

/// Keeps the slot of an ended goroutine. On g0 or in a section.
#[inline]
pub(crate) fn put(p: &'static P, g: &'static G) {
    let class = SizeClass::of_slot(g.slot_size());
    let Some(cached) = class.cached() else {
        SHARED[class.index()].lock_inside().push_front(g);
        return;
    };
    let own = &p.dead[cached];
    own.push_front(g);
    if own.len() > PER_P {
        spill(own, class, PER_P / 2);
    }
}

#[cold]
fn spill(own: &GList, class: SizeClass, count: usize) {
    let list = GList::new();
    for _ in 0..count {
        let Some(g) = own.pop_front() else { break };
        list.push_back(g);
    }
    SHARED[class.index()].lock_inside().prepend(&list);
}

/// Gives all that a retired P kept to the others.
pub(crate) fn flush(p: &'static P) {
    for class in [SizeClass::DEFAULT, SizeClass::SMALL] {
        if let Some(cached) = class.cached() {
            spill(&p.dead[cached], class, usize::MAX);
        }
    }
}

/// Puts a slot back that could not be used after all. Anywhere.
pub(crate) fn put_shared(g: &'static G) {
    SHARED[SizeClass::of_slot(g.slot_size()).index()].lock().push_front(g);
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
        unsafe { tls::block::rebuild(g.block) };
    } else {
        return Ok(());
    }
    g.block_stale.set(false);
    crate::sched::section::mark_block(g);
    Ok(())
}

/// Takes up to `count` shared slots that were not trimmed since their goroutine ended.
pub(super) fn take_untrimmed(class: usize, count: usize) -> GList {
    let list = GList::new();
    let shared = SHARED[class].lock();
    while list.len() < count {
        match shared.pop_front() {
            Some(g) if g.shrunk.get() => {
                // Trimmed ones are at the end: there are no others behind it.
                shared.push_front(g);
                break;
            }
            Some(g) => list.push_back(g),
            None => break,
        }
    }
    list
}

/// Puts trimmed slots behind all others.
pub(super) fn put_trimmed(class: usize, list: &GList) {
    SHARED[class].lock().append(list);
}
