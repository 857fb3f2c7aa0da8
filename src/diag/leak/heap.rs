//! Blocks of glibc's heap: which block an address belongs to.
//!
//! A handle in a structure on the heap (`Arc<Connection>`, a boxed closure, a context) can be used only by
//! code that can reach the block. So the search needs to know where the block begins and ends. The allocator
//! knows, but does not say, and it cannot be asked while all threads are stopped. So the search looks for
//! everything below the address that may be the header of a block around it.
//!
//! ```text
//!   size | flags │ the block, a multiple of 16 bytes minus 8 │ size | flags of the next chunk │ ..
//!                └ what malloc returned, a multiple of 16       └ bit 0: the chunk before is in use
//! ```
//!
//! - B1. While a block is in use, its header and the header behind it are as above, whatever other threads
//!   do: glibc changes the latter by single stores of valid headers. Only the thread that is inside
//!   `realloc` with this very block is an exception, so there must be none ([`may_allocate`]).
//! - B2. So the true block is among the candidates, and their hull is at least the block. Other candidates (a
//!   number that looks like a size, a header of earlier days) make the hull larger. The hull is closed: each
//!   candidate that overlaps it lies in it. So a block that is in use lies in it as a whole or not at all,
//!   and code that reaches a block by its start reaches the hull. A leak may be missed; no goroutine is
//!   listed wrongly.
//! - B3. Only memory that certainly is glibc's heap counts: the mapping `[heap]`, and mappings with the
//!   header of an arena's heap; and only if the program's `malloc` is glibc's. In all other memory each
//!   word is a root.

use std::ops::Range;

use super::desk::List;
use crate::arch::SignalFrame;
use crate::sys::inspect::{self, Kind};
use crate::sys::libc_code;

/// The boundary at which the heaps of glibc's arenas begin (`HEAP_MAX_SIZE`).
const ARENA: usize = 64 << 20;
/// Room for the `heap_info` at the beginning of an arena's heap (bytes).
const HEAP_INFO: usize = 32;
/// The smallest chunk (bytes).
const SMALLEST: usize = 32;
/// The alignment of blocks and sizes.
const ALIGN: usize = 16;

/// Flags beside the size: the chunk before is in use; the block has a mapping of its own; the chunk belongs
/// to an arena other than the main one.
const BEFORE_IN_USE: usize = 1;
const OWN_MAPPING: usize = 2;
const IN_ARENA: usize = 4;
const FLAGS: usize = 7;

/// The largest block that is considered (bytes). Larger ones are roots.
const LARGEST: usize = 16 << 10;
/// If the hull of a block is larger than this (bytes), the block is a root.
const LARGEST_HULL: usize = 2 * LARGEST;

/// At most this many larger blocks are known. If there are more, everything on the heap is a root.
pub(super) const LARGER: usize = 1 << 14;

/// At most this many heaps are known; the others are roots.
pub(super) const HEAPS: usize = 1 << 10;

#[derive(Clone, Copy)]
pub(super) struct Heap {
    start: usize,
    end: usize,
    /// The flag that its chunks have.
    arena: usize,
}

pub(super) struct Heaps {
    /// In ascending order.
    list: List<Heap>,
    /// Everything that may be a block larger than `LARGEST`, sorted by start. `None`: not known yet.
    larger: Option<List<Range<usize>>>,
    room: List<Range<usize>>,
}

impl Heaps {
    pub(super) fn new(list: List<Heap>, larger: List<Range<usize>>) -> Heaps {
        Heaps { list, larger: None, room: larger }
    }

    /// Adds a mapping, if it is a heap (B3). They come in ascending order.
    pub(super) fn consider(&mut self, mapping: Range<usize>, kind: Kind) {
        match kind {
            Kind::Heap => {
                // The kernel lists parts that differ in their flags one by one.
                match self.list.as_mut_slice().last_mut() {
                    Some(last) if last.arena == 0 && last.end == mapping.start => last.end = mapping.end,
                    _ => _ = self.list.push(Heap { start: mapping.start, end: mapping.end, arena: 0 }),
                }
            }
            Kind::Anonymous => {
                // The kernel merges neighbours, so the heap may begin inside the mapping.
                let first = mapping.start.next_multiple_of(ARENA);
                for start in (first..mapping.end).step_by(ARENA) {
                    if let Some(end) = end_of_arena(start, mapping.end) {
                        self.list.push(Heap { start, end, arena: IN_ARENA });
                    }
                }
            }
            Kind::Other => {}
        }
    }

    fn heap(&self, address: usize) -> Option<Heap> {
        let heaps = self.list.as_slice();
        let heap = heaps.get(heaps.partition_point(|heap| heap.end <= address))?;
        (heap.start <= address).then_some(*heap)
    }

    /// Whether the address is in a heap.
    pub(super) fn hold(&self, address: usize) -> bool {
        self.heap(address).is_some()
    }

    /// At least the block that contains `address` (B2). `None`: that is not known.
    pub(super) fn block(&mut self, address: usize) -> Option<Range<usize>> {
        let heap = self.heap(address)?;
        let mut hull = heap.hull(&(address..address + 1))?;
        loop {
            let larger = heap.hull(&hull)?;
            if larger == hull {
                break;
            }
            hull = larger;
            if hull.len() > LARGEST_HULL {
                return None;
            }
        }
        let overlaps = |block: &Range<usize>| block.start < hull.end && hull.start < block.end;
        (!self.larger().as_slice().iter().any(overlaps)).then_some(hull)
    }

    /// Everything that may be a block larger than `LARGEST`.
    fn larger(&mut self) -> &List<Range<usize>> {
        let (heaps, room) = (&self.list, &mut self.room);
        self.larger.get_or_insert_with(|| {
            for heap in heaps.as_slice() {
                for start in (heap.first()..heap.end - SMALLEST).step_by(ALIGN) {
                    let size = word(start - 8);
                    if size <= LARGEST || size > heap.end - start {
                        continue;
                    }
                    if let Some(end) = heap.end_of_block(start)
                        && !merge(room, start..end)
                    {
                        // No room: then everything may be one.
                        room.len = 0;
                        room.push(0..usize::MAX);
                        return room.clone();
                    }
                }
            }
            room.clone()
        })
    }
}

/// Adds a range to ranges in ascending order. False: there is no room.
fn merge(ranges: &mut List<Range<usize>>, range: Range<usize>) -> bool {
    match ranges.as_mut_slice().last_mut() {
        Some(last) if range.start < last.end => {
            last.end = last.end.max(range.end);
            true
        }
        _ => ranges.push(range),
    }
}

impl Heap {
    /// The lowest address where a block may begin.
    fn first(&self) -> usize {
        self.start.next_multiple_of(ALIGN) + ALIGN
    }

    /// The hull of all blocks up to [`LARGEST`] that overlap `range`, as far as they may be in use.
    fn hull(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let last = (range.end - 1) & !(ALIGN - 1);
        let first = self.first().max((range.start & !(ALIGN - 1)).saturating_sub(LARGEST));
        let mut hull: Option<Range<usize>> = None;
        for start in (first..=last).step_by(ALIGN) {
            if let Some(end) = self.end_of_block(start)
                && end > range.start
            {
                let (from, to) = hull.map_or((start, end), |hull| (hull.start, hull.end.max(end)));
                hull = Some(from..to);
            }
        }
        hull
    }

    /// The end of the block at `start`, if there may be one in use (B1).
    #[inline]
    fn end_of_block(&self, start: usize) -> Option<usize> {
        let header = word(start - 8);
        let size = header & !FLAGS;
        let is_header = header & (OWN_MAPPING | IN_ARENA) == self.arena && size.is_multiple_of(ALIGN);
        // The header behind it must lie in the heap, too. The last chunk of a heap is never in use.
        if !is_header || size < SMALLEST || size > self.end - start {
            return None;
        }
        let end = start + size - 8;
        let next = word(end);
        // (The next chunk begins with that header's word before `end`, and the last one ends with the heap.)
        let fits = next & !FLAGS <= self.end - end + 8 && (next & !FLAGS).is_multiple_of(ALIGN);
        (next & BEFORE_IN_USE != 0 && fits).then_some(end)
    }
}

/// The end of the heap of an arena at `start`, if there is one. At its beginning are the arena's address, the
/// heap before it in the arena, the bytes in use, and the bytes that can be accessed.
fn end_of_arena(start: usize, mapped_to: usize) -> Option<usize> {
    let mut info = [0; HEAP_INFO / size_of::<usize>()];
    // Through the kernel: what is not a heap may begin with a guard page.
    if !inspect::copy_memory(start, &mut info) {
        return None;
    }
    let [arena, before, used, accessible] = info;
    let end = start.checked_add(accessible)?;
    let fits = end == mapped_to || (accessible == ARENA && end < mapped_to);
    let own = (start + HEAP_INFO..end).contains(&arena);
    let other = arena != 0 && before != 0 && before.is_multiple_of(ARENA);
    (fits && used <= accessible && (own || other)).then_some(end)
}

/// Whether the thread with these registers may be inside the allocator, and not in a system call.
pub(super) fn may_allocate(frame: SignalFrame) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    // SAFETY: the caller's thread has stopped in this code, so it can be read, also directly before.
    let code = |at: usize| unsafe { *(at as *const [u8; 2]) };
    let pc = frame.pc();
    libc_code::may_contain(pc) && code(pc) != SYSCALL && code(pc - 2) != SYSCALL
}

/// A word of a heap. All threads are stopped.
#[inline]
fn word(address: usize) -> usize {
    // SAFETY: heaps are mapped and can be read.
    unsafe { *(address as *const usize) }
}

#[cfg(test)]
mod tests {
    use super::super::desk::Desk;
    use super::*;
    use crate::sys::inspect::{File, written_mappings};
    use crate::test_util::alone;

    // The search stops all threads. Here nothing stops the tests beside, which change the heap and leave old
    // headers in it: so each test has a process of its own.

    /// The heaps of the process.
    fn heaps(desk: &mut Desk) -> Heaps {
        let mut heaps = Heaps::new(desk.list(HEAPS), desk.list(LARGER));
        let mut text = vec![0; 1 << 20];
        let maps = File::open(c"/proc/self/maps").unwrap();
        written_mappings(maps.read_all(&mut text).unwrap(), |mapping, kind| heaps.consider(mapping, kind));
        heaps
    }

    #[test]
    fn a_block_that_a_hull_touches_lies_in_it() {
        if !alone("diag::leak::heap::tests::a_block_that_a_hull_touches_lies_in_it") {
            return;
        }
        // Blocks of 96 bytes with their headers. A word in each looks like the header of a block that begins
        // there, and ends where the next one has that word.
        const FALSE_HEADER: usize = 9;
        let mut blocks: Vec<Vec<usize>> = (0..100).map(|_| vec![0; 11]).collect();
        let mut desk = Desk::new(1 << 20).unwrap();
        let mut heaps = heaps(&mut desk);
        for block in &mut blocks {
            let arena = heaps.heap(block.as_ptr() as usize).map_or(0, |heap| heap.arena);
            block[FALSE_HEADER] = 96 | BEFORE_IN_USE | arena;
        }
        let mut larger = 0;
        for block in &blocks {
            let Some(hull) = heaps.block(block.as_ptr() as usize + 40) else { continue };
            for other in blocks.iter().map(|other| other.as_ptr_range()) {
                let (start, end) = (other.start as usize, other.end as usize);
                let outside = end <= hull.start || hull.end <= start;
                let inside = hull.start <= start && end <= hull.end;
                assert!(outside || inside, "{start:x}..{end:x} is partly in {hull:x?}");
                larger += usize::from(inside && start != block.as_ptr() as usize);
            }
        }
        assert!(larger > 0, "no hull is larger than its block");
    }

    #[test]
    fn blocks_are_found_from_any_address_inside() {
        if !alone("diag::leak::heap::tests::blocks_are_found_from_any_address_inside") {
            return;
        }
        let mut desk = Desk::new(1 << 20).unwrap();
        // Below the size from which on malloc makes mappings, some of them with a hole before.
        let blocks: Vec<Vec<u64>> = (1..400).map(|n| vec![n as u64; n % 40 + n * n / 100 + 1]).collect();
        let (kept, freed): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block.len() % 3 != 0);
        drop(freed);
        let mut heaps = heaps(&mut desk);
        let mut exact = 0;
        for block in &kept {
            let (start, end) = (block.as_ptr() as usize, block.as_ptr() as usize + size_of_val(&block[..]));
            for address in [start, start + 8 * (block.len() / 2), end - 8] {
                assert!(heaps.hold(address), "{address:x} is in no heap");
                let Some(hull) = heaps.block(address) else { continue };
                assert!(hull.start <= start && hull.end >= end, "{hull:x?} is not all of {start:x}..{end:x}");
                exact += usize::from(hull.start == start && hull.end < end + 32);
            }
        }
        assert!(exact > kept.len(), "only {exact} times the block itself");
        assert!(!heaps.hold(&raw const exact as usize), "the stack is no heap");
    }
}
