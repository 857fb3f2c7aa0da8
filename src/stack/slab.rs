//! New slots. A slab is one reservation of address space for many slots of one size; it is never unmapped, so a
//! G stays readable for ever. All slabs are in a list that only grows: reports walk it without a lock.
//!
//! The stacks are not made known to Valgrind: it has one "current stack" for all threads, and with several of them it
//! takes the next large frame for a switch. `valgrind --max-stackframe=50000` tells switches from frames by distance,
//! and reports no false errors.

use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::size::{CLASSES, SizeClass};
use crate::sched::g::G;
use crate::sched::lock::Lock;
use crate::sys::mem;
use crate::tls;

/// Address space of a slab of small slots.
const SLAB_BYTES: usize = 64 << 20;

struct Slab {
    start: usize,
    class: SizeClass,
    slots: usize,
    /// Slots handed out; their Gs exist up to here, with gaps while one is being made.
    used: AtomicUsize,
    /// Whether batches of slots have their guards. See [`Slab::guard`].
    guarded: Box<[AtomicBool]>,
    older: *const Slab,
}

/// Slots whose guards are made together: half the price.
const BATCH: usize = mem::MOST_AT_ONCE;

/// A slot that nobody else has.
struct Slot {
    start: usize,
    /// It has its guard already.
    guarded: bool,
}

static NEWEST: AtomicPtr<Slab> = AtomicPtr::new(ptr::null_mut());

/// For each size the slab that new slots come from.
static OPEN: [Lock<Option<&'static Slab>>; CLASSES] = [const { Lock::new(None) }; CLASSES];

impl Slab {
    fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed) < self.slots
    }

    fn slot(&self, index: usize) -> usize {
        self.start + index * self.class.stride()
    }

    /// Whether this slot, just taken, has its guard. Who takes the first of a batch makes those of all; who takes another
    /// one before that is done makes its own, which does no harm.
    fn guard(&self, index: usize) -> bool {
        let batch = &self.guarded[index / BATCH];
        if !index.is_multiple_of(BATCH) {
            return batch.load(Ordering::Relaxed);
        }
        let end = (index + BATCH).min(self.slots);
        // SAFETY: the lowest page of a slot is its guard, and used for nothing else.
        let done = unsafe { mem::guard_all((index..end).map(|index| self.slot(index)), mem::PAGE) };
        batch.store(done, Ordering::Relaxed);
        done
    }
}

// SAFETY: immutable but for an atomic.
unsafe impl Sync for Slab {}
// SAFETY: as above.
unsafe impl Send for Slab {}

/// Makes a new slot with its guard and its G; private TLS is made by the first user who wants it. Allocates:
/// not for code that holds a runtime lock. Errors say which limit was reached.
pub(crate) fn new_slot(class: SizeClass) -> io::Result<&'static G> {
    let layout = tls::block::layout().map_err(io::Error::other)?;
    let Slot { start, guarded } = take_slot(class)?;
    // SAFETY: the slot is ours and unused.
    if !guarded && let Err(error) = unsafe { mem::guard(start, mem::PAGE) } {
        give_back(class, start);
        return Err(error);
    }
    let (block, place) = places(layout, start, class);
    let g = place as *mut G;
    // SAFETY: the place lies in the slot, is aligned, and becomes a G for ever.
    unsafe {
        g.write(G::new(start, class.slot_size(), block));
        Ok(&*g)
    }
}

/// Calls `f` for every G there is, in any state. Slots that are just being made are left out.
pub(crate) fn for_each_g(mut f: impl FnMut(&'static G)) {
    all_g(|g| {
        f(g);
        true
    });
}

/// As [`for_each_g`], until `f` says false. True: it never did.
pub(crate) fn all_g(mut f: impl FnMut(&'static G) -> bool) -> bool {
    let Ok(layout) = tls::block::layout() else { return true };
    // Acquire pairs with the release in `publish`.
    let mut next = NEWEST.load(Ordering::Acquire).cast_const();
    // SAFETY: slabs are leaked.
    while let Some(slab) = unsafe { next.as_ref() } {
        for index in 0..slab.used.load(Ordering::Relaxed).min(slab.slots) {
            let start = slab.slot(index);
            let (_, place) = places(layout, start, slab.class);
            // SAFETY: the place is mapped and holds a G, or zeroes as long as nobody wrote one.
            let g: &'static G = unsafe { &*(place as *const G) };
            if g.slot_start() == start && !f(g) {
                return false;
            }
        }
        next = slab.older;
    }
    true
}

/// Calls `f` with the addresses of every slab.
pub(crate) fn for_each_slab(mut f: impl FnMut(Range<usize>)) {
    // Acquire as in `all_g`.
    let mut next = NEWEST.load(Ordering::Acquire).cast_const();
    // SAFETY: slabs are leaked.
    while let Some(slab) = unsafe { next.as_ref() } {
        f(slab.start..slab.start + slab.slots * slab.class.stride());
        next = slab.older;
    }
}

/// Where a slot's TLS block (its thread pointer) and its G are.
fn places(layout: &tls::layout::Layout, start: usize, class: SizeClass) -> (usize, usize) {
    let block = (start + class.stride() - layout.above) & !(layout.align - 1);
    let g = (block - layout.below - size_of::<G>()) & !(align_of::<G>() - 1);
    (block, g)
}

/// Slots that could not be finished, to be tried again.
static UNFINISHED: [Lock<usize>; CLASSES] = [const { Lock::new(0) }; CLASSES];

fn give_back(class: SizeClass, start: usize) {
    let mut head = UNFINISHED[class.index()].lock();
    // SAFETY: an unused slot of ours: the first word above its guard, which may be there, links the list.
    unsafe { ((start + mem::PAGE) as *mut usize).write(*head) };
    *head = start;
}

fn take_slot(class: SizeClass) -> io::Result<Slot> {
    {
        let mut head = UNFINISHED[class.index()].lock();
        if *head != 0 {
            let start = *head;
            // SAFETY: see `give_back`.
            *head = unsafe { *((start + mem::PAGE) as *const usize) };
            return Ok(Slot { start, guarded: false });
        }
    }
    loop {
        if let Some(slot) = take_from_open(class) {
            return Ok(slot);
        }
        open_slab(class)?;
    }
}

/// Opens a new slab, unless another thread does so meanwhile. Nobody waits for anybody: a goroutine that loses its P in
/// here would be waited for by all that are run instead.
fn open_slab(class: SizeClass) -> io::Result<()> {
    let new = reserve_slab(class).map(|(start, bytes)| {
        let slots = bytes / class.stride();
        let guarded = (0..slots.div_ceil(BATCH)).map(|_| AtomicBool::new(false)).collect();
        let used = AtomicUsize::new(0);
        (Box::new(Slab { start, class, slots, used, guarded, older: ptr::null() }), bytes)
    });
    let mut open = OPEN[class.index()].lock();
    if !open.is_some_and(Slab::has_room) {
        *open = Some(publish(new?.0));
        return Ok(());
    }
    drop(open);
    if let Ok((slab, bytes)) = new {
        // SAFETY: nobody has seen it.
        unsafe { mem::release(slab.start, bytes) };
    }
    Ok(())
}

fn take_from_open(class: SizeClass) -> Option<Slot> {
    let open = *OPEN[class.index()].lock();
    let slab = open?;
    let index = slab.used.fetch_add(1, Ordering::Relaxed);
    (index < slab.slots).then(|| Slot { start: slab.slot(index), guarded: slab.guard(index) })
}

/// What a limit of the address space leaves to others: the allocator, threads. Without it the first allocation after a
/// refused goroutine would end the process.
const LEFT_TO_OTHERS: usize = 8 << 20;

fn reserve_and_leave_room(bytes: usize) -> io::Result<usize> {
    let start = mem::reserve(bytes + LEFT_TO_OTHERS)?;
    // SAFETY: nobody has seen the end of it yet.
    unsafe { mem::release(start + bytes, LEFT_TO_OTHERS) };
    Ok(start)
}

/// Address space for a slab: its start and size.
fn reserve_slab(class: SizeClass) -> io::Result<(usize, usize)> {
    let slot = class.stride();
    let mut bytes = SLAB_BYTES.max(slot);
    // Under a tight address-space limit a smaller slab may still fit.
    loop {
        match reserve_and_leave_room(bytes) {
            Ok(start) => return Ok((start, bytes)),
            Err(error) if bytes == slot => return Err(error),
            Err(_) => bytes = (bytes / 4).max(slot),
        }
    }
}

/// Makes a slab known for ever.
fn publish(slab: Box<Slab>) -> &'static Slab {
    let slab = Box::into_raw(slab);
    let mut newest = NEWEST.load(Ordering::Relaxed);
    loop {
        // SAFETY: not published yet.
        unsafe { (*slab).older = newest };
        // Release: readers see a complete slab.
        match NEWEST.compare_exchange_weak(newest, slab, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => newest = now,
        }
    }
    // SAFETY: never freed.
    unsafe { &*slab }
}
