//! Making new slots. A slab is one reservation of address space for many slots of one size. It is never
//! unmapped, so a header stays readable forever. All slabs are in a list that only grows, which reports walk
//! without a lock.
//!
//! No thread waits for another here, so there is no lock: a goroutine that lost its P while it held one would
//! block all goroutines that run instead.
//!
//! The stacks are not registered with Valgrind. Valgrind keeps one "current stack" for all threads; with
//! several registered stacks it takes the next large frame for a switch. `valgrind --max-stackframe=50000`
//! tells switches from frames by their distance, and reports no false errors.

use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::size::{self, CLASSES, Need, PAGE_TABLE, SizeClass};
use super::slot::{HEADER, Slot};
use crate::sys::mem;
use crate::tls::{self, layout::Layout};

/// Address space of a slab of packed slots (bytes), unless one slot needs more.
const SLAB_BYTES: usize = 64 << 20;
/// Slots in the first slab of growable slots; a further one has as many as there are, up to [`MOST_IN_SLAB`].
const FIRST_IN_SLAB: usize = 16;
const MOST_IN_SLAB: usize = 512;

/// Address space (bytes) that a new slab must leave free when the process has a limit, for the allocator and
/// threads. Without it, the first allocation after a refused goroutine would end the process.
const LEFT_TO_OTHERS: usize = 8 << 20;

/// The guards of this many slots are made together, which halves the cost.
const BATCH: usize = mem::MOST_AT_ONCE;

struct Slab {
    start: usize,
    class: SizeClass,
    /// The distance from one slot to the next (bytes).
    span: usize,
    /// The layout of the slots' TLS blocks.
    layout: &'static Layout,
    slots: usize,
    /// How many slots were handed out. Their headers exist, except those that are being made.
    used: AtomicUsize,
    /// For each batch of slots, whether they have their guards. See [`Slab::guard`].
    guarded: Box<[AtomicBool]>,
    /// Set before the slab enters the list.
    older: AtomicPtr<Slab>,
}

/// The list of all slabs.
static NEWEST: AtomicPtr<Slab> = AtomicPtr::new(ptr::null_mut());

/// What a debugger needs to find all slots as [`all_slots`] does (`diag/gdb/`): the list, the size of
/// headers, and offsets of fields.
pub(crate) const FOR_DEBUGGERS: [(&str, *const ()); 11] = [
    ("slab newest", (&raw const NEWEST).cast()),
    ("header bytes", ptr::without_provenance(HEADER)),
    ("slab.older", ptr::without_provenance(offset_of!(Slab, older))),
    ("slab.start", ptr::without_provenance(offset_of!(Slab, start))),
    ("slab.span", ptr::without_provenance(offset_of!(Slab, span))),
    ("slab.used", ptr::without_provenance(offset_of!(Slab, used))),
    ("slab.slots", ptr::without_provenance(offset_of!(Slab, slots))),
    ("slab.layout", ptr::without_provenance(offset_of!(Slab, layout))),
    ("layout.above", ptr::without_provenance(offset_of!(Layout, above))),
    ("layout.align", ptr::without_provenance(offset_of!(Layout, align))),
    ("layout.below", ptr::without_provenance(offset_of!(Layout, below))),
];

/// For each size, the slab that new slots come from.
static OPEN: [AtomicPtr<Slab>; CLASSES] = [const { AtomicPtr::new(ptr::null_mut()) }; CLASSES];

/// For each size, slots whose guard could not be made, to be tried again: a list linked through the first
/// word above each slot's guard. Threads push one slot, or take the whole list. So no slot can leave and come
/// back while a push is under way (the ABA problem).
static UNFINISHED: [AtomicUsize; CLASSES] = [const { AtomicUsize::new(0) }; CLASSES];

/// A new slot with its guard. It belongs to the caller, who writes the header: see
/// [`NewSlot::end_of_header`].
pub(crate) struct NewSlot {
    start: usize,
    class: SizeClass,
    block: usize,
    header: usize,
}

impl NewSlot {
    /// The address to which the caller writes [`HEADER`] bytes.
    pub(crate) fn header(&self) -> usize {
        self.header
    }

    /// The `Slot` that the caller writes to the end of the header.
    pub(crate) fn end_of_header(&self) -> Slot {
        Slot::new(self.start, self.class, self.block)
    }
}

impl Slab {
    fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed) < self.slots
    }

    fn slot(&self, index: usize) -> usize {
        self.start + index * self.span
    }

    /// Whether this slot, just taken, has its guard. The thread that takes the first slot of a batch makes
    /// the guards of the whole batch. A thread that takes another slot before that is done makes the guard
    /// itself; to make it twice does no harm.
    fn guard(&self, index: usize) -> bool {
        let batch = &self.guarded[index / BATCH];
        if !index.is_multiple_of(BATCH) {
            return batch.load(Ordering::Relaxed);
        }
        let end = (index + BATCH).min(self.slots);
        // SAFETY: the lowest pages of a slot are its guard, and used for nothing else.
        let done = unsafe { mem::guard_all((index..end).map(|index| self.slot(index)), self.class.guard()) };
        batch.store(done, Ordering::Relaxed);
        done
    }
}

/// Makes a new slot with its guard; the caller makes the private TLS block. Allocates, so the caller must not
/// hold a runtime lock. Errors say which limit was reached.
pub(crate) fn new_slot(need: Need) -> io::Result<NewSlot> {
    if need.grows && size::claim_growable() {
        match new_slot_of(SizeClass::GROWABLE) {
            Ok(slot) => return Ok(slot),
            Err(_) => size::no_more_growable(),
        }
    }
    new_slot_of(need.class)
}

fn new_slot_of(class: SizeClass) -> io::Result<NewSlot> {
    let layout = tls::block::layout().map_err(io::Error::other)?;
    let (start, guarded) = take_slot(class)?;
    // SAFETY: the slot is ours and unused.
    if !guarded && let Err(error) = unsafe { mem::guard(start, class.guard()) } {
        push_unfinished(class, start);
        return Err(error);
    }
    let (block, header) = places(layout, start, class);
    Ok(NewSlot { start, class, block, header })
}

/// Calls `f` for every slot that was made, until `f` returns false. True: `f` never did.
pub(crate) fn all_slots(mut f: impl FnMut(&'static Slot) -> bool) -> bool {
    slabs().all(|slab| {
        (0..slab.used.load(Ordering::Relaxed).min(slab.slots)).all(|index| {
            let start = slab.slot(index);
            let (_, header) = places(slab.layout, start, slab.class);
            // SAFETY: the header is mapped and holds a Slot at its end, or zeroes until one is written.
            let slot: &'static Slot = unsafe { &*((header + HEADER - size_of::<Slot>()) as *const Slot) };
            slot.start() != start || f(slot)
        })
    })
}

/// Calls `f` with the addresses of every slab.
pub(crate) fn for_each_slab(mut f: impl FnMut(Range<usize>)) {
    slabs().for_each(|slab| f(slab.start..slab.slot(slab.slots)));
}

fn slabs() -> impl Iterator<Item = &'static Slab> {
    // Acquire pairs with the release in `publish`. SAFETY: slabs are leaked.
    let newest: Option<&'static Slab> = unsafe { NEWEST.load(Ordering::Acquire).as_ref() };
    // SAFETY: as above. Relaxed: published together with the slab.
    std::iter::successors(newest, |slab| unsafe { slab.older.load(Ordering::Relaxed).as_ref() })
}

/// Where a slot's TLS block (its thread pointer) and its header are.
fn places(layout: &Layout, start: usize, class: SizeClass) -> (usize, usize) {
    let block = (start + class.span() - layout.above) & !(layout.align - 1);
    let header = (block - layout.below - HEADER) & !(HEADER / 2 - 1);
    (block, header)
}

fn push_unfinished(class: SizeClass, start: usize) {
    let head = &UNFINISHED[class.index()];
    let mut first = head.load(Ordering::Relaxed);
    loop {
        // SAFETY: an unused slot of ours, and the word lies above its guard, which may be there.
        unsafe { ((start + class.guard()) as *mut usize).write(first) };
        // Release: the thread that takes the list sees the link.
        match head.compare_exchange_weak(first, start, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// Takes one of the unfinished slots.
fn pop_unfinished(class: SizeClass) -> Option<usize> {
    let head = &UNFINISHED[class.index()];
    if head.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // Acquire pairs with the release in `push_unfinished`.
    let first = head.swap(0, Ordering::Acquire);
    let mut rest = first;
    while rest != 0 {
        // SAFETY: the list is ours now; its links were written by `push_unfinished`.
        let next = unsafe { *((rest + class.guard()) as *const usize) };
        if rest != first {
            push_unfinished(class, rest);
        }
        rest = next;
    }
    (first != 0).then_some(first)
}

/// Takes an unused slot. Also returns whether it has its guard already.
fn take_slot(class: SizeClass) -> io::Result<(usize, bool)> {
    if let Some(start) = pop_unfinished(class) {
        return Ok((start, false));
    }
    loop {
        // Acquire pairs with `open_slab`. SAFETY: slabs are leaked.
        let open: Option<&'static Slab> = unsafe { OPEN[class.index()].load(Ordering::Acquire).as_ref() };
        if let Some(slab) = open {
            let index = slab.used.fetch_add(1, Ordering::Relaxed);
            if index < slab.slots {
                return Ok((slab.slot(index), slab.guard(index)));
            }
        }
        open_slab(class, open)?;
    }
}

/// Opens a new slab in place of `full`, unless another thread does so meanwhile.
fn open_slab(class: SizeClass, full: Option<&'static Slab>) -> io::Result<()> {
    let layout = tls::block::layout().map_err(io::Error::other)?;
    let (reserved, start, slots) = match reserve_slab(class) {
        Ok(reserved) => reserved,
        // Another thread may have got the last of the address space, for a slab that has room.
        // SAFETY: slabs are leaked.
        Err(error) => match unsafe { OPEN[class.index()].load(Ordering::Acquire).as_ref() } {
            Some(slab) if slab.has_room() => return Ok(()),
            _ => return Err(error),
        },
    };
    let guarded = (0..slots.div_ceil(BATCH)).map(|_| AtomicBool::new(false)).collect();
    let new = Box::into_raw(Box::new(Slab {
        start,
        class,
        span: class.span(),
        layout,
        slots,
        used: AtomicUsize::new(0),
        guarded,
        older: AtomicPtr::new(ptr::null_mut()),
    }));
    let full = full.map_or(ptr::null_mut(), |slab| ptr::from_ref(slab).cast_mut());
    // Release: the slab is complete.
    if OPEN[class.index()].compare_exchange(full, new, Ordering::Release, Ordering::Relaxed).is_err() {
        // Another thread was faster, and no thread has seen ours. SAFETY: as just said.
        unsafe {
            mem::release(reserved.start, reserved.len());
            drop(Box::from_raw(new));
        }
        return Ok(());
    }
    publish(new);
    Ok(())
}

/// Adds a slab to the list of all slabs. Other threads may have taken slots of it already; reports do not see
/// those until this is done.
fn publish(slab: *mut Slab) {
    let mut newest = NEWEST.load(Ordering::Relaxed);
    loop {
        // SAFETY: slabs are leaked.
        unsafe { (*slab).older.store(newest, Ordering::Relaxed) };
        // Release: readers see a complete slab.
        match NEWEST.compare_exchange_weak(newest, slab, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => newest = now,
        }
    }
}

fn reserve_and_leave_room(bytes: usize) -> io::Result<usize> {
    let start = mem::reserve(bytes + LEFT_TO_OTHERS)?;
    // SAFETY: nobody has seen the end of it yet.
    unsafe { mem::release(start + bytes, LEFT_TO_OTHERS) };
    Ok(start)
}

/// Address space for a slab: all of it, the start of its first slot, and the number of its slots.
fn reserve_slab(class: SizeClass) -> io::Result<(Range<usize>, usize, usize)> {
    static GROWABLE: AtomicUsize = AtomicUsize::new(0);
    let slot = class.span();
    // Room to move the first slot of a growable slab to its place.
    let (mut slots, room) = if class.is_growable() {
        // The caller has claimed one.
        let most = (size::growable_left() + 1).min(MOST_IN_SLAB);
        let slots = GROWABLE.load(Ordering::Relaxed).max(FIRST_IN_SLAB).min(most);
        (slots, 2 * PAGE_TABLE)
    } else {
        ((SLAB_BYTES / slot).max(1), 0)
    };
    if class.is_growable() && mem::is_populated_at_once() {
        return Err(io::Error::other("all address space is locked in memory (mlockall)"));
    }
    // Under a tight address-space limit a smaller slab may still fit, and its slots should be packed.
    let reserved = loop {
        let bytes = slots * slot + room;
        match reserve_and_leave_room(bytes) {
            Ok(start) => break start..start + bytes,
            Err(error) if slots == 1 || class.is_growable() => return Err(error),
            Err(_) => slots = slots.div_ceil(4),
        }
    };
    if !class.is_growable() {
        return Ok((reserved.clone(), reserved.start, slots));
    }
    // Each growable slot begins a page later than the one before, counted from a multiple of PAGE_TABLE. A
    // new slab goes on where the last one ended, so that the top pages use all sets of the CPU's TLB.
    let before = GROWABLE.fetch_add(slots, Ordering::Relaxed);
    let offset = before * mem::PAGE % PAGE_TABLE;
    Ok((reserved.clone(), reserved.start.next_multiple_of(PAGE_TABLE) + offset, slots))
}
