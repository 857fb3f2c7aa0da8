//! What the search looks for, and where it was found: the mark phase of a garbage collector.
//!
//! A target is an allocation that code can reach only by an address within it: a channel, a wait group, or a
//! block of the heap with such an address inside. A word that points into a target finds it, wherever the
//! word lies in a root. A word inside a target counts only once that target was found itself.
//!
//! A word on the heap that would find a target is a suspect first. The block around it (`heap.rs`) becomes a
//! target, too, and memory is searched again: for the addresses of these blocks, and so on. After
//! [`ROUNDS`] rounds, all words on the heap are roots. So a handle may lie in an `Arc` that is in a box
//! that is in an `Arc`.

use std::ops::Range;

use super::desk::{Desk, List};
use super::heap::{HEAPS, Heap, Heaps, LARGER};

/// How often memory is searched at most.
const ROUNDS: u32 = 6;
/// At most this many words can be suspects in a round; further ones are roots.
const SUSPECTS: usize = 1 << 14;

#[derive(Clone, Copy)]
struct Target {
    start: usize,
    end: usize,
    found: bool,
    /// It was found, and what is in it was looked at.
    spread: bool,
}

pub(super) struct Targets {
    /// Sorted by start once `merge` was called; no two have the same start.
    list: List<Target>,
    /// The addresses from the first to the last target.
    bounds: Range<usize>,
    /// The length of the longest target (bytes).
    longest: usize,
    pub(super) heaps: Heaps,
    /// Addresses of words on the heap that point into targets.
    suspects: List<usize>,
    /// Blocks around suspects.
    blocks: List<Range<usize>>,
    round: u32,
}

impl Targets {
    /// The memory (bytes) that is needed for this many targets besides blocks.
    pub(super) fn room_for(most: usize) -> usize {
        Desk::room_for::<Target>(most + ROUNDS as usize * SUSPECTS)
            + Desk::room_for::<usize>(SUSPECTS)
            + Desk::room_for::<Range<usize>>(SUSPECTS)
            + Desk::room_for::<Heap>(HEAPS)
            + Desk::room_for::<Range<usize>>(LARGER)
    }

    pub(super) fn new(desk: &mut Desk, most: usize) -> Targets {
        Targets {
            list: desk.list(most + ROUNDS as usize * SUSPECTS),
            bounds: 0..0,
            longest: 0,
            heaps: Heaps::new(desk.list(HEAPS), desk.list(LARGER)),
            suspects: desk.list(SUSPECTS),
            blocks: desk.list(SUSPECTS),
            round: 0,
        }
    }

    /// Adds a target. False: there is no room.
    pub(super) fn add(&mut self, range: Range<usize>) -> bool {
        self.list.push(Target { start: range.start, end: range.end, found: false, spread: false })
    }

    /// Sorts the targets and merges those with the same start.
    pub(super) fn merge(&mut self) {
        let targets = self.list.as_mut_slice();
        targets.sort_unstable_by_key(|target| target.start);
        let mut kept: usize = 0;
        for at in 0..targets.len() {
            let target = targets[at];
            match kept.checked_sub(1).and_then(|last| targets.get_mut(last)) {
                Some(last) if last.start == target.start => {
                    last.end = last.end.max(target.end);
                    last.found |= target.found;
                }
                _ => {
                    targets[kept] = target;
                    kept += 1;
                }
            }
        }
        let targets = &targets[..kept];
        let start = targets.first().map_or(0, |target| target.start);
        self.bounds = start..targets.iter().map(|target| target.end).max().unwrap_or(0);
        self.longest = targets.iter().map(|target| target.end - target.start).max().unwrap_or(0);
        self.list.len = kept;
    }

    /// Finds the targets that these words of a root point to.
    pub(super) fn look_at(&mut self, words: &[usize]) {
        let (start, length) = (self.bounds.start, self.bounds.len());
        for &word in words {
            if word.wrapping_sub(start) < length {
                self.find(word);
            }
        }
    }

    /// As `look_at`, for a page of memory at `address`, which may be part of a heap, and may contain targets.
    pub(super) fn look_at_page(&mut self, address: usize, words: &[usize]) {
        let (start, length) = (self.bounds.start, self.bounds.len());
        let on_heap = self.round + 1 < ROUNDS && self.heaps.hold(address);
        for (index, &word) in words.iter().enumerate() {
            let at = address + index * size_of::<usize>();
            if word.wrapping_sub(start) >= length || self.is_in_target(at) || !self.would_find(word) {
                continue;
            }
            if !on_heap || !self.suspects.push(at) {
                self.find(word);
            }
        }
    }

    /// Makes targets of the blocks around the suspects of this round. True: memory has to be searched for
    /// them.
    pub(super) fn next_round(&mut self) -> bool {
        self.round += 1;
        self.blocks.len = 0;
        for at in 0..self.suspects.len {
            let suspect = self.suspects.as_slice()[at];
            // SAFETY: the word was read before, and all threads are stopped.
            let word = unsafe { *(suspect as *const usize) };
            if !self.would_find(word) {
                continue;
            }
            match self.heaps.block(suspect) {
                Some(block) if self.list.len + self.blocks.len < self.list.capacity => {
                    self.blocks.push(block);
                }
                _ => self.find(word),
            }
        }
        self.suspects.len = 0;
        for at in 0..self.blocks.len {
            let block = self.blocks.as_slice()[at].clone();
            self.add(block);
        }
        self.merge();
        self.blocks.len != 0
    }

    /// Looks at what is in the targets that were found, until no more are found.
    pub(super) fn spread(&mut self) {
        let mut done = false;
        while !done {
            done = true;
            for at in 0..self.list.len {
                let target = self.list.as_slice()[at];
                if target.found && !target.spread {
                    self.list.as_mut_slice()[at].spread = true;
                    done = false;
                    // SAFETY: it is an allocation that is in use, and no thread writes to it.
                    self.look_at(unsafe { words(target.start, target.end) });
                }
            }
        }
    }

    /// Whether the target that begins there was found.
    pub(super) fn is_found(&self, start: usize) -> bool {
        let targets = self.list.as_slice();
        targets.binary_search_by_key(&start, |target| target.start).is_ok_and(|at| targets[at].found)
    }

    /// The indices of the targets around an address, downwards.
    fn around(&self, address: usize) -> impl Iterator<Item = usize> {
        let (targets, longest) = (self.list.as_slice(), self.longest);
        let after = targets.partition_point(|target| target.start <= address);
        let near = (0..after).rev().take_while(move |&at| address - targets[at].start < longest);
        near.filter(move |&at| address < targets[at].end)
    }

    fn is_in_target(&self, address: usize) -> bool {
        self.around(address).next().is_some()
    }

    /// Whether the word points into a target that was not found yet.
    fn would_find(&self, word: usize) -> bool {
        self.around(word).any(|at| !self.list.as_slice()[at].found)
    }

    fn find(&mut self, word: usize) {
        let after = self.list.as_slice().partition_point(|target| target.start <= word);
        for at in (0..after).rev() {
            let target = &mut self.list.as_mut_slice()[at];
            if word - target.start >= self.longest {
                break;
            }
            target.found |= word < target.end;
        }
    }
}

/// # Safety
/// The memory can be read, and no thread writes to it.
pub(super) unsafe fn words<'a>(start: usize, end: usize) -> &'a [usize] {
    let start = start.next_multiple_of(size_of::<usize>());
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start as *const usize, (end - start) / size_of::<usize>()) }
}
