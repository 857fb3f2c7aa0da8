//! The leak search itself; the head of `mod.rs` explains it. It collects candidates (goroutines whose wait
//! may never end) and targets (allocations whose addresses could end a wait, `targets.rs`), marks the targets
//! whose address is found in a root, and repeats this with the stacks of candidates whose wait may end.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering;

use super::desk::{Desk, List};
use super::heap::may_allocate;
use super::stop_all_threads::Stopped;
use super::targets::{Targets, words};
use super::wait::{self, Wait};
use crate::arch::RED_ZONE;
use crate::chan::select::engine;
use crate::sched::machine::SCHED;
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sched::word::status::Status;
use crate::stack::slab;
use crate::sync::holder::StackPage;
use crate::sync::holder::reads::Reads;
use crate::sync::{Blockers, Crowd};
use crate::sys::inspect::{self, File, Memory};
use crate::sys::libc_code;
use crate::sys::mem::PAGE;

/// The longest text of /proc/self/maps that is read (bytes).
const MAPS: usize = 32 << 20;
/// At most this many ranges of addresses can be left out of the search.
const HOLES: usize = 1 << 14;
/// At most this many goroutines may be running; with more, the search fails.
const RUNNING: usize = 1 << 14;

/// A goroutine that may wait forever.
#[derive(Clone, Copy)]
struct Candidate {
    g: &'static G,
    /// Its part of `Search::waits`.
    first: usize,
    count: usize,
    /// If it joins: the info of the goroutine that it waits for.
    joins: usize,
    /// If it waits for a lock: what keeps it out.
    lock: Option<Blockers>,
    live: bool,
    /// It is live, and its stack has been looked at.
    spread: bool,
}

pub(super) struct Search {
    /// Sorted by address when all are known.
    candidates: List<Candidate>,
    /// The address of each candidate's `Info` and its index in `candidates`, sorted.
    infos: List<(usize, usize)>,
    /// The candidates that keep others out of an RwLock, as indices into `candidates`, sorted. As many as
    /// fit.
    crowds: List<(Crowd, usize)>,
    /// Starts of targets.
    waits: List<usize>,
    targets: Targets,
    holes: List<Range<usize>>,
    /// The goroutines that Ms run, sorted by address.
    running: List<usize>,
    /// The stack pointers of all threads, minus the red zone, sorted.
    tops: List<usize>,
    buffer: List<usize>,
    maps: List<u8>,
    /// The Gs that are not in use, sorted by address: their stacks belong to goroutines that have ended.
    ended: List<usize>,
}

impl Search {
    /// The memory (bytes) that the search needs for this many goroutines.
    pub(super) fn room_for(goroutines: usize) -> usize {
        Desk::room_for::<Candidate>(goroutines)
            + Desk::room_for::<(usize, usize)>(goroutines)
            + Desk::room_for::<(Crowd, usize)>(goroutines)
            + Desk::room_for::<usize>(2 * goroutines)
            + Targets::room_for(2 * goroutines)
            + Desk::room_for::<usize>(goroutines)
            + Desk::room_for::<Range<usize>>(HOLES)
            + 2 * Desk::room_for::<usize>(RUNNING)
            + Desk::room_for::<usize>(PAGE / size_of::<usize>())
            + Desk::room_for::<u8>(MAPS)
    }

    /// An empty search.
    pub(super) fn new(desk: &mut Desk, goroutines: usize) -> Search {
        Search {
            candidates: desk.list(goroutines),
            infos: desk.list(goroutines),
            crowds: desk.list(goroutines),
            waits: desk.list(2 * goroutines),
            targets: Targets::new(desk, 2 * goroutines),
            holes: desk.list(HOLES),
            running: desk.list(RUNNING),
            tops: desk.list(RUNNING),
            buffer: desk.list(PAGE / size_of::<usize>()),
            maps: desk.list(MAPS),
            ended: desk.list(goroutines),
        }
    }

    /// After `run`: the goroutines that wait forever.
    pub(super) fn leaked(&self) -> impl Iterator<Item = &'static G> {
        self.candidates.as_slice().iter().filter(|candidate| !candidate.live).map(|candidate| candidate.g)
    }

    /// Finds out which candidates are live. `None`: something did not fit, or could not be read.
    pub(super) fn run(&mut self, stopped: &Stopped, untouched: &[Range<usize>]) -> Option<()> {
        let memory = Memory::open()?;
        let reads = Reads::new();
        for g in SCHED.platform.all_ms().filter_map(M::current) {
            self.running.push(address(g)).then_some(())?;
        }
        self.running.as_mut_slice().sort_unstable();
        let trusted = libc_code::has_malloc() && !stopped.threads().any(|(_, frame, _)| may_allocate(frame));
        self.look_at_maps(trusted)?;
        let mut fits = true;
        G::for_each(|g| fits &= self.consider(g));
        slab::for_each_slab(|slab| fits &= self.holes.push(slab));
        untouched.iter().for_each(|range| fits &= self.holes.push(range.clone()));
        fits.then_some(())?;
        for (_, _, stack) in stopped.threads().filter(|&(tid, ..)| !runs_user_code(tid)) {
            // These threads run code of the runtime, but registers that it does not use may still hold values
            // of the goroutine that ran there before.
            if let Some(stack) = stack {
                self.holes.push(stack).then_some(())?;
            }
        }
        self.holes.as_mut_slice().sort_unstable_by_key(|hole| hole.start);
        self.candidates.as_mut_slice().sort_unstable_by_key(|candidate| address(candidate.g));
        for (index, candidate) in self.candidates.as_slice().iter().enumerate() {
            self.infos.push((candidate.g.info.load(Ordering::Relaxed) as usize, index)).then_some(())?;
            for lock in reads.of(candidate.g) {
                self.crowds.push((Crowd::Readers(lock), index));
            }
            if let Some(crowd) = candidate.lock.and_then(|lock| lock.member_of) {
                self.crowds.push((crowd, index));
            }
        }
        self.ended.as_mut_slice().sort_unstable();
        self.infos.as_mut_slice().sort_unstable();
        self.crowds.as_mut_slice().sort_unstable();
        for (_, frame, _) in stopped.threads() {
            // The registers themselves lie in memory that is searched.
            self.tops.push(frame.registers().sp().saturating_sub(RED_ZONE)).then_some(())?;
        }
        self.tops.as_mut_slice().sort_unstable();
        self.targets.merge();
        loop {
            self.look_at_mappings(&memory);
            G::for_each(|g| self.look_at_goroutine(&memory, g));
            if !self.targets.next_round() {
                break;
            }
        }
        self.spread(&memory);
        Some(())
    }

    /// Whether the goroutine is switched out: then its stack is in use from its saved stack pointer upwards.
    /// If a signal has stopped it, its registers lie there, too (`sched/monitor/interrupted.rs`).
    fn is_switched_out(&self, g: &'static G) -> bool {
        matches!(g.status(), Status::Waiting | Status::Runnable | Status::Preempted)
            && self.running.as_slice().binary_search(&address(g)).is_err()
    }

    /// Adds it to the candidates if it is one, or to those that have ended. False: there is no room.
    fn consider(&mut self, g: &'static G) -> bool {
        if g.status() == Status::Dead {
            return self.ended.push(address(g));
        }
        let Some(wait) = Some(g).filter(|g| self.is_switched_out(g)).and_then(Wait::of) else { return true };
        let first = self.waits.len;
        let mut count = 0;
        let (mut joins, mut lock) = (0, None);
        match wait {
            Wait::Nothing => {}
            Wait::Join(info) => joins = info,
            Wait::Lock(blockers) => {
                lock = Some(blockers);
                // Not all readers are known, but each has an address in the block that the lock lies in.
                if let Some(Crowd::Readers(address)) = blockers.crowd
                    && let Some(block) = self.targets.heaps.block(address)
                {
                    count = 1;
                    if !(self.waits.push(block.start) && self.targets.add(block)) {
                        return false;
                    }
                }
            }
            Wait::Target(target) => {
                count = 1;
                if !(self.waits.push(target.start) && self.targets.add(target)) {
                    return false;
                }
            }
            Wait::Block(address) => {
                // A condition variable anywhere else than in a block of the heap is in reach.
                let Some(block) = self.targets.heaps.block(address) else { return true };
                count = 1;
                if !(self.waits.push(block.start) && self.targets.add(block)) {
                    return false;
                }
            }
            Wait::Select(place) => {
                // SAFETY: it waits there, and all threads are stopped.
                for object in unsafe { engine::objects(place) }.flatten().filter(|&object| object != 0) {
                    count += 1;
                    // SAFETY: a channel of a waiting select is alive.
                    let target = unsafe { wait::channel(object) };
                    if !(self.waits.push(target.start) && self.targets.add(target)) {
                        return false;
                    }
                }
            }
        }
        self.candidates.push(Candidate { g, first, count, joins, lock, live: false, spread: false })
    }

    /// Reads the list of mappings. If the heaps can be `trusted`, notes them.
    fn look_at_maps(&mut self, trusted: bool) -> Option<()> {
        let file = File::open(c"/proc/self/maps")?;
        self.maps.len = self.maps.capacity;
        let maps = file.read_all(self.maps.as_mut_slice())?;
        let heaps = &mut self.targets.heaps;
        inspect::written_mappings(maps, |mapping, kind| {
            if trusted {
                heaps.consider(mapping, kind);
            }
        });
        self.maps.len = maps.len();
        Some(())
    }

    /// Searches all memory except the holes.
    fn look_at_mappings(&mut self, memory: &Memory) {
        let (maps, holes) = (self.maps.clone(), self.holes.clone());
        inspect::written_mappings(maps.as_slice(), |mapping, _| {
            let mut at = mapping.start;
            let first = holes.as_slice().partition_point(|hole| hole.end <= at);
            for hole in &holes.as_slice()[first..] {
                if hole.start >= mapping.end {
                    break;
                }
                if hole.start > at {
                    self.look_at_memory(memory, at..hole.start);
                }
                at = at.max(hole.end);
            }
            if at < mapping.end {
                self.look_at_memory(memory, at..mapping.end);
            }
        });
    }

    fn look_at_memory(&mut self, memory: &Memory, range: Range<usize>) {
        let mut buffer = self.buffer.clone();
        buffer.len = buffer.capacity;
        let pages = range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE);
        memory.each(pages, buffer.as_mut_slice(), |address, words| self.targets.look_at_page(address, words));
    }

    /// Searches the stack of a goroutine that is not a candidate: it is a root.
    fn look_at_goroutine(&mut self, memory: &Memory, g: &'static G) {
        if g.status() == Status::Dead || self.candidate(g).is_some() {
            return;
        }
        let slot = slot(g);
        let switched_out = self.is_switched_out(g);
        let tops = self.tops.as_slice();
        let top = if switched_out {
            g.context.get()
        } else {
            tops.get(tops.partition_point(|&top| top < slot.start)).copied().unwrap_or(0)
        };
        self.look_at_stack(memory, slot, top);
    }

    /// Searches a slot, from the stack pointer `top` on. If that is not on the slot's stack, the goroutine
    /// runs on a stack that it allocated itself, and all of the slot may be in use.
    fn look_at_stack(&mut self, memory: &Memory, slot: Range<usize>, top: usize) {
        if slot.contains(&top) {
            // SAFETY: the slot is mapped, and no thread writes to it.
            self.targets.look_at(unsafe { words(top, slot.end) });
        } else {
            self.look_at_memory(memory, slot);
        }
    }

    fn candidate(&self, g: &'static G) -> Option<usize> {
        self.candidates.as_slice().binary_search_by_key(&address(g), |candidate| address(candidate.g)).ok()
    }

    /// Marks everything as live that live candidates and found targets can reach, until nothing changes.
    fn spread(&mut self, memory: &Memory) {
        let mut done = false;
        while !done {
            done = true;
            self.targets.spread();
            for at in 0..self.candidates.len {
                let candidate = self.candidates.as_slice()[at];
                if !candidate.spread && (candidate.live || self.may_end(&candidate)) {
                    self.candidates.as_mut_slice()[at] = Candidate { live: true, spread: true, ..candidate };
                    done = false;
                    self.look_at_stack(memory, slot(candidate.g), candidate.g.context.get());
                }
            }
        }
    }

    /// Whether the goroutine whose stack this address is in may go on. A lock that an ended goroutine has
    /// left locked stays so: guards are not `Send`.
    fn goes_on(&self, on_stack: usize) -> bool {
        let (candidates, ended) = (self.candidates.as_slice(), self.ended.as_slice());
        // A stack lies below its G.
        let owns = |g: &G| g.slot.start() <= on_stack;
        let next = candidates.get(candidates.partition_point(|candidate| address(candidate.g) < on_stack));
        if let Some(owner) = next.filter(|candidate| owns(candidate.g)) {
            return owner.live;
        }
        let next = ended.get(ended.partition_point(|&g| g < on_stack));
        // SAFETY: the addresses are those of Gs, which are never unmapped (G1).
        !next.is_some_and(|&g| owns(unsafe { &*(g as *const G) }))
    }

    /// Whether no member of the crowd is known to wait forever.
    fn all_live(&self, crowd: Crowd) -> bool {
        let crowds = self.crowds.as_slice();
        let first = crowds.partition_point(|&(other, _)| other < crowd);
        let members = crowds[first..].iter().take_while(|&&(other, _)| other == crowd);
        members.into_iter().all(|&(_, at)| self.candidates.as_slice()[at].live)
    }

    /// Whether something was found that can end the candidate's wait.
    fn may_end(&self, candidate: &Candidate) -> bool {
        if let Some(Blockers { holder, crowd, .. }) = candidate.lock {
            let holder_goes_on =
                holder.is_none_or(|page: StackPage| self.goes_on(page.near(address(candidate.g))));
            return holder_goes_on
                && crowd.is_none_or(|crowd| self.all_live(crowd))
                && (candidate.count == 0 || self.is_in_reach(candidate));
        }
        if candidate.joins != 0 {
            // The join ends unless the other goroutine is a candidate that is not live.
            let other = self.infos.as_slice().binary_search_by_key(&candidate.joins, |&(info, _)| info);
            return other.is_err()
                || other.is_ok_and(|at| self.candidates.as_slice()[self.infos.as_slice()[at].1].live);
        }
        self.is_in_reach(candidate)
    }

    /// Whether one of the targets that it waits for was found.
    fn is_in_reach(&self, candidate: &Candidate) -> bool {
        let waits = &self.waits.as_slice()[candidate.first..candidate.first + candidate.count];
        waits.iter().any(|&start| self.targets.is_found(start))
    }
}

/// The addresses of its stack, its G and its thread-locals.
fn slot(g: &'static G) -> Range<usize> {
    g.slot.addresses()
}

/// Whether the thread runs user code: not the scheduler on g0, and not a service thread of the runtime.
fn runs_user_code(tid: u32) -> bool {
    let scheduler = SCHED.platform.m_of_thread(tid).is_some_and(|m| m.current().is_none());
    !SCHED.platform.is_service_thread(tid) && !scheduler
}

fn address(g: &'static G) -> usize {
    ptr::from_ref(g) as usize
}
