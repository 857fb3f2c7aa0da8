//! Goroutines that wait for ever: nobody who could end the wait can be reached any more.
//!
//! All threads are stopped (`pause.rs`), and then memory is searched for whatever could end each wait, as a garbage
//! collector marks: what cannot be found cannot be used.
//!
//! | it waits for | only these can end the wait | found by |
//! | --- | --- | --- |
//! | a channel, or several | handles of the channel | the address of its allocation, or into it |
//! | a wait group | its clones | the same |
//! | the end of a goroutine | that goroutine | whether that one waits for ever |
//! | a mutex, or an RwLock that is locked for writing | its holder, because guards cannot be sent | the same |
//! | to write what others read | all of the readers | whether one of them waits for ever |
//! | to read behind somebody who waits to write | that one | the same |
//! | no channel at all | nothing | – |
//!
//! A goroutine that waits for one of these, without a timeout, is a candidate. Everything else is a root: all memory that the process
//! has written to, the registers of all threads, the stacks of all other goroutines. A word there that could be one of the addresses
//! means that the wait may end: then the candidate's own stack is a root too, and so on until nothing changes. The
//! candidates that are left wait for each other or for nobody.
//!
//! - L1. Never a goroutine whose wait can end. A handle that exists lies in memory or in a register of a thread that runs or of
//!   a goroutine that will, as an address: it is found. (Unless it is at an address that is not a multiple of 8, in a packed struct. And
//!   unless a guard was forgotten and its lock dropped.)
//! - L2. Somebody may have taken a goroutine out of its queue, be about to ready it, and know the queue no more. So only who is still
//!   queued is a candidate: whoever readies it later has to go to the queue first. (A channel whose one side is gone lets all of
//!   them go at once, without telling them: who waits there is not a candidate.)
//! - L3. Some are missed: memory that was freed or is no longer used may still hold an address, a number may look like one, and what lies on
//!   the heap is a root even if only candidates can reach it.
//!
//! Readers of an RwLock are known if they are goroutines and do not read too much at once (`sync/reads.rs`).
//!
//! Nothing is allocated and no lock is taken while the threads are stopped: the memory that is needed is mapped before. It is not
//! searched, and neither are the stacks of goroutines that have ended.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::g::G;
use super::pause::{self, Stopped};
use super::reason::WaitReason;
use super::status::Status;
use super::waiter::Place;
use super::{deadlock, m, syscall};
use crate::chan::waitq::{ELSEWHERE, Node as ChanNode};
use crate::chan::{counter, engine};
use crate::stack::slab;
use crate::sync::holder::StackPage;
use crate::sync::reads::Reads;
use crate::sync::waitq::Node as LockNode;
use crate::sync::{Blockers, Crowd};
use crate::sys::inspect::{self, File, Memory};
use crate::sys::mem::{self, PAGE};

/// A function may use so many bytes beyond the end of its stack.
const RED_ZONE: usize = 128;

/// No target is longer.
const LONGEST: usize = 2048;

/// Selects of more operations are not looked at.
const MOST_CASES: usize = 16;

/// How often everybody is stopped if somebody could not be.
const ATTEMPTS: u32 = 5;

/// The ids of goroutines that wait for ever.
pub(crate) fn find() -> Vec<u64> {
    static ONE: Mutex<()> = Mutex::new(());
    syscall::blocking(|| {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // On a thread that has no memory of the user's on its stack.
        let search =
            std::thread::Builder::new().name("gort-leaks".into()).stack_size(256 << 10).spawn(|| {
                (0..ATTEMPTS).find_map(|attempt| {
                    std::thread::sleep(Duration::from_millis(10 * u64::from(attempt)));
                    let found = search();
                    scrub();
                    found
                })
            });
        search.ok().and_then(|search| search.join().ok()).flatten().unwrap_or_default()
    })
}

/// `None`: not everybody could be stopped, or there was no memory.
fn search() -> Option<Vec<u64>> {
    let own_stack = own_stack()?;
    let mut goroutines = 0;
    slab::for_each_g(|_| goroutines += 1);
    let desk = Desk::new(goroutines + 1024)?;
    let mut search = desk.search();
    let complete = {
        let stopped = pause::stop()?;
        search.run(&stopped, &[own_stack, desk.start..desk.start + desk.size])
    };
    complete?;
    let leaked = search.candidates.as_slice().iter().filter(|candidate| !candidate.live);
    Some(leaked.map(|candidate| candidate.g.id()).collect())
}

/// Overwrites what calls before have left on this stack: the next thread that gets it would seem to know all the channels.
#[inline(never)]
fn scrub() {
    std::hint::black_box(&mut [0usize; 16 << 10]);
}

/// The calling thread's.
fn own_stack() -> Option<Range<usize>> {
    // SAFETY: the attributes are initialised by the call, read, and destroyed.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut start, mut size) = (ptr::null_mut(), 0);
        libc::pthread_attr_getstack(&attributes, &mut start, &mut size);
        libc::pthread_attr_destroy(&mut attributes);
        Some(start as usize..start as usize + size)
    }
}

/// A goroutine that may wait for ever.
#[derive(Clone, Copy)]
struct Candidate {
    g: &'static G,
    /// Its part of `Search::waits`.
    first: usize,
    count: usize,
    /// If it joins: the info of the goroutine that it waits for.
    joins: usize,
    /// If it waits for a lock.
    lock: Option<Blockers>,
    queued_in: Option<Crowd>,
    live: bool,
    /// It is live, and its stack has been looked at.
    spread: bool,
}

/// An allocation that can be reached only by its addresses, and those who wait at it only through it.
#[derive(Clone, Copy)]
struct Target {
    start: usize,
    end: usize,
    found: bool,
    /// It was found, and the allocation has been looked at.
    spread: bool,
}

/// A vector in memory that was there before. What does not fit is refused.
struct List<T> {
    start: *mut T,
    len: usize,
    capacity: usize,
}

impl<T> List<T> {
    fn push(&mut self, value: T) -> bool {
        if self.len == self.capacity {
            return false;
        }
        // SAFETY: within the capacity.
        unsafe { self.start.add(self.len).write(value) };
        self.len += 1;
        true
    }

    fn as_slice(&self) -> &[T] {
        // SAFETY: so many were written.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and we are borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// The memory of a search.
struct Desk {
    start: usize,
    size: usize,
    goroutines: usize,
}

/// The text of /proc/self/maps may be so long; mappings that are left out of the search; goroutines that run.
const MAPS: usize = 32 << 20;
const HOLES: usize = 1 << 14;
const RUNNING: usize = 1 << 14;

impl Desk {
    fn new(goroutines: usize) -> Option<Desk> {
        let each = size_of::<Candidate>()
            + size_of::<(usize, usize)>()
            + size_of::<(Crowd, usize)>()
            + 2 * (size_of::<Target>() + size_of::<usize>());
        let lists = HOLES * size_of::<Range<usize>>() + 2 * RUNNING * size_of::<usize>();
        let size = (goroutines * each + lists + MAPS + 16 * PAGE).next_multiple_of(PAGE);
        Some(Desk { start: mem::reserve(size).ok()?, size, goroutines })
    }

    fn search(&self) -> Search {
        let mut next = self.start;
        Search {
            candidates: carve(&mut next, self.goroutines),
            infos: carve(&mut next, self.goroutines),
            crowds: carve(&mut next, self.goroutines),
            waits: carve(&mut next, 2 * self.goroutines),
            targets: carve(&mut next, 2 * self.goroutines),
            holes: carve(&mut next, HOLES),
            running: carve(&mut next, RUNNING),
            tops: carve(&mut next, RUNNING),
            buffer: carve(&mut next, PAGE / size_of::<usize>()),
            maps: carve(&mut next, MAPS),
            bounds: 0..0,
        }
    }
}

fn carve<T>(next: &mut usize, capacity: usize) -> List<T> {
    let start = next.next_multiple_of(align_of::<T>());
    *next = start + capacity * size_of::<T>();
    List { start: start as *mut T, len: 0, capacity }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // SAFETY: the search, whose lists are here, is over.
        unsafe { mem::release(self.start, self.size) };
    }
}

struct Search {
    /// By address, when all are known.
    candidates: List<Candidate>,
    /// The info of each candidate and where it is in that list, sorted.
    infos: List<(usize, usize)>,
    /// The candidates that keep others out of an RwLock, as places in that list, sorted. As many as fit.
    crowds: List<(Crowd, usize)>,
    /// Starts of targets.
    waits: List<usize>,
    /// By their starts, no two with the same.
    targets: List<Target>,
    holes: List<Range<usize>>,
    /// Goroutines that an M has, by address.
    running: List<usize>,
    /// Where the stacks of all threads end, sorted.
    tops: List<usize>,
    buffer: List<usize>,
    maps: List<u8>,
    /// Around all targets.
    bounds: Range<usize>,
}

// SAFETY: the memory belongs to the search.
unsafe impl<T: Send> Send for List<T> {}

impl<T> Clone for List<T> {
    fn clone(&self) -> List<T> {
        List { start: self.start, len: self.len, capacity: self.capacity }
    }
}

impl Search {
    /// Finds out which candidates are live. `None`: something did not fit, or could not be read.
    fn run(&mut self, stopped: &Stopped, untouched: &[Range<usize>]) -> Option<()> {
        let memory = Memory::open()?;
        let reads = Reads::new();
        for g in m::all().filter_map(m::M::current) {
            self.running.push(address(g)).then_some(())?;
        }
        self.running.as_mut_slice().sort_unstable();
        let mut fits = true;
        slab::for_each_g(|g| fits &= self.consider(g));
        slab::for_each_slab(|slab| fits &= self.holes.push(slab));
        untouched.iter().for_each(|range| fits &= self.holes.push(range.clone()));
        fits.then_some(())?;
        for (_, context) in stopped.threads().filter(|&(tid, _)| !runs_user_code(tid)) {
            // What they run is the runtime's, but in registers that it does not use values of the goroutine that ran
            // there before are left.
            let stack = context.uc_stack.ss_sp as usize;
            let stack = stack..stack + context.uc_stack.ss_size;
            if stack.contains(&(ptr::from_ref(context) as usize)) {
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
            if let Some(crowd) = candidate.queued_in {
                self.crowds.push((crowd, index));
            }
        }
        self.infos.as_mut_slice().sort_unstable();
        self.crowds.as_mut_slice().sort_unstable();
        self.merge_targets();

        self.look_at_mappings(&memory)?;
        for (_, context) in stopped.threads() {
            // The registers are in memory that was looked at.
            let top = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
            self.tops.push(top.saturating_sub(RED_ZONE)).then_some(())?;
        }
        self.tops.as_mut_slice().sort_unstable();
        slab::for_each_g(|g| self.look_at_goroutine(g));
        self.spread();
        Some(())
    }

    /// Whether the goroutine is switched out: then its stack is in use from its context on.
    fn is_switched_out(&self, g: &'static G) -> bool {
        matches!(g.status(), Status::Waiting | Status::Runnable)
            && self.running.as_slice().binary_search(&address(g)).is_err()
    }

    /// Makes it a candidate if it is one. False: no room.
    fn consider(&mut self, g: &'static G) -> bool {
        let Some(wait) = self.wait_of(g) else { return true };
        let first = self.waits.len;
        let mut count = 0;
        let (mut joins, mut lock, mut queued_in) = (0, None, None);
        match wait {
            Wait::Nothing => {}
            Wait::Join(info) => joins = info,
            Wait::Lock(blockers, crowd) => (lock, queued_in) = (Some(blockers), crowd),
            Wait::Target(target) => {
                count = 1;
                if !self.add_target(target) {
                    return false;
                }
            }
            Wait::Select(place) => {
                // SAFETY: it waits there, and everybody is stopped.
                for object in unsafe { engine::objects(place) }.flatten().filter(|&object| object != 0) {
                    count += 1;
                    // SAFETY: a channel of a waiting select is alive.
                    if !self.add_target(unsafe { counter::allocation(object) }) {
                        return false;
                    }
                }
            }
        }
        self.candidates.push(Candidate {
            g,
            first,
            count,
            joins,
            lock,
            queued_in,
            live: false,
            spread: false,
        })
    }

    fn add_target(&mut self, range: Range<usize>) -> bool {
        let target = Target { start: range.start, end: range.end, found: false, spread: false };
        self.waits.push(range.start) && self.targets.push(target)
    }

    /// For what it waits, if it is a candidate.
    fn wait_of(&self, g: &'static G) -> Option<Wait> {
        if g.status() != Status::Waiting || !g.park.is_parked() || !self.is_switched_out(g) {
            return None;
        }
        // SAFETY: it has not ended, and everybody is stopped.
        let limited = unsafe { g.info.load(Ordering::Relaxed).as_ref() }
            .is_none_or(|info| !info.context.load(Ordering::Relaxed).is_null());
        if g.wait_is_timed() || limited || g.bubble.get() != 0 {
            return None;
        }
        let (reason, object) = (g.wait_reason(), g.wait_object.load(Ordering::Relaxed));
        match reason {
            WaitReason::SelectNoCases => return Some(Wait::Nothing),
            WaitReason::Join => return Some(Wait::Join(object)),
            WaitReason::ChanReceive if object == 0 => return Some(Wait::Nothing),
            WaitReason::ChanReceive if object == ELSEWHERE => return None,
            _ => {}
        }
        // SAFETY: all the reasons below come with a place.
        let place = || unsafe { Place::at(object) };
        // SAFETY: the node is on the stack of the goroutine, which waits.
        let queued = |place: &Place| unsafe { (*(place.node as *const LockNode)).waits() };
        match reason {
            WaitReason::ChanReceive | WaitReason::ChanSend => {
                let place = place();
                // SAFETY: the node is on the stack of the goroutine, which waits.
                if place.object == ELSEWHERE || !unsafe { (*(place.node as *const ChanNode)).waits() } {
                    return None;
                }
                // SAFETY: the channel that it waits for is alive.
                let (range, gone) =
                    unsafe { (counter::allocation(place.object), counter::is_disconnected(place.object)) };
                (range.len() <= LONGEST && !gone).then_some(Wait::Target(range))
            }
            WaitReason::Select => {
                let place = place();
                let (mut count, mut known) = (0, true);
                // SAFETY: it waits there, and everybody is stopped.
                for object in unsafe { engine::objects(place) } {
                    count += 1;
                    known &= object.is_some_and(|object| {
                        // SAFETY: a channel of a waiting select is alive.
                        object == 0 || unsafe { counter::allocation(object) }.len() <= LONGEST
                    });
                }
                (known && count <= MOST_CASES).then_some(Wait::Select(place))
            }
            // Its clones point to the counts before it.
            WaitReason::WaitGroup => Some(place()).filter(|place| queued(place)).map(|place| {
                Wait::Target(place.object - 2 * size_of::<usize>()..place.object + size_of::<usize>())
            }),
            // SAFETY: it waits there, and everybody is stopped.
            _ => unsafe {
                Some(Wait::Lock(Blockers::of_wait(reason, object)?, Crowd::of_wait(reason, object)))
            },
        }
    }

    /// Sorts the targets and makes those with the same start one.
    fn merge_targets(&mut self) {
        let targets = self.targets.as_mut_slice();
        targets.sort_unstable_by_key(|target| target.start);
        let mut kept: usize = 0;
        for at in 0..targets.len() {
            let target = targets[at];
            match kept.checked_sub(1).and_then(|last| targets.get_mut(last)) {
                Some(last) if last.start == target.start => last.end = last.end.max(target.end),
                _ => {
                    targets[kept] = target;
                    kept += 1;
                }
            }
        }
        let start = targets.first().map_or(0, |target| target.start);
        self.bounds = start..targets[..kept].iter().map(|target| target.end).max().unwrap_or(0);
        self.targets.len = kept;
    }

    /// Marks the targets that these words point to.
    fn look_at(&mut self, words: &[usize]) {
        let (start, length) = (self.bounds.start, self.bounds.len());
        for &word in words {
            if word.wrapping_sub(start) < length {
                self.found(word);
            }
        }
    }

    /// The same for memory at this address, but for allocations that nobody may be able to reach.
    fn look_at_page(&mut self, address: usize, words: &[usize]) {
        let (start, length) = (self.bounds.start, self.bounds.len());
        for (index, &word) in words.iter().enumerate() {
            if word.wrapping_sub(start) < length && !self.is_in_target(address + index * size_of::<usize>()) {
                self.found(word);
            }
        }
    }

    fn is_in_target(&self, address: usize) -> bool {
        let targets = self.targets.as_slice();
        let after = targets.partition_point(|target| target.start <= address);
        let near = targets[..after].iter().rev().take_while(|target| address < target.start + LONGEST);
        near.into_iter().any(|target| address < target.end)
    }

    fn found(&mut self, word: usize) {
        let targets = self.targets.as_mut_slice();
        let after = targets.partition_point(|target| target.start <= word);
        for target in targets[..after].iter_mut().rev() {
            if target.start + LONGEST <= word {
                break;
            }
            target.found |= word < target.end;
        }
    }

    /// Looks at all memory but the holes.
    fn look_at_mappings(&mut self, memory: &Memory) -> Option<()> {
        let file = File::open(c"/proc/self/maps")?;
        let (mut maps, holes) = (self.maps.clone(), self.holes.clone());
        maps.len = maps.capacity;
        let maps = file.read_all(maps.as_mut_slice())?;
        self.maps.len = maps.len();
        inspect::written_mappings(maps, |mapping| {
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
        Some(())
    }

    fn look_at_memory(&mut self, memory: &Memory, range: Range<usize>) {
        let mut buffer = self.buffer.clone();
        buffer.len = buffer.capacity;
        let pages = range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE);
        memory.each(pages, buffer.as_mut_slice(), |address, words| self.look_at_page(address, words));
    }

    /// A goroutine that is not a candidate is a root.
    fn look_at_goroutine(&mut self, g: &'static G) {
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
        let start = if slot.contains(&top) { top } else { slot.start };
        // SAFETY: the slot is mapped, and nobody writes.
        self.look_at(unsafe { words(start, slot.end) });
    }

    fn candidate(&self, g: &'static G) -> Option<usize> {
        self.candidates.as_slice().binary_search_by_key(&address(g), |candidate| address(candidate.g)).ok()
    }

    /// What can be reached from candidates that are live is live.
    fn spread(&mut self) {
        let mut done = false;
        while !done {
            done = true;
            for at in 0..self.targets.len {
                let target = self.targets.as_slice()[at];
                if target.found && !target.spread {
                    self.targets.as_mut_slice()[at].spread = true;
                    // SAFETY: it is an allocation that is in use, and nobody writes.
                    self.look_at(unsafe { words(target.start, target.end) });
                }
            }
            for at in 0..self.candidates.len {
                let candidate = self.candidates.as_slice()[at];
                if !candidate.spread && (candidate.live || self.may_end(&candidate)) {
                    self.candidates.as_mut_slice()[at] = Candidate { live: true, spread: true, ..candidate };
                    done = false;
                    let (slot, context) = (slot(candidate.g), candidate.g.context.get());
                    let start = if slot.contains(&context) { context } else { slot.start };
                    // SAFETY: the slot is mapped, and nobody writes.
                    self.look_at(unsafe { words(start, slot.end) });
                }
            }
        }
    }

    /// The candidate whose stack this address is in.
    fn stack_owner(&self, on_stack: usize) -> Option<&Candidate> {
        let candidates = self.candidates.as_slice();
        // A stack lies below its G.
        let next = candidates.get(candidates.partition_point(|candidate| address(candidate.g) < on_stack))?;
        slot(next.g).contains(&on_stack).then_some(next)
    }

    /// Whether nobody of these is known to wait for ever.
    fn all_live(&self, crowd: Crowd) -> bool {
        let crowds = self.crowds.as_slice();
        let first = crowds.partition_point(|&(other, _)| other < crowd);
        let members = crowds[first..].iter().take_while(|&&(other, _)| other == crowd);
        members.into_iter().all(|&(_, at)| self.candidates.as_slice()[at].live)
    }

    /// Whether something that can end the wait was found.
    fn may_end(&self, candidate: &Candidate) -> bool {
        if let Some(Blockers { holder, crowd }) = candidate.lock {
            let holder = holder.and_then(|page: StackPage| self.stack_owner(page.near(address(candidate.g))));
            return holder.is_none_or(|holder| holder.live) && crowd.is_none_or(|crowd| self.all_live(crowd));
        }
        if candidate.joins != 0 {
            // Only a goroutine that waits for ever never ends.
            let other = self.infos.as_slice().binary_search_by_key(&candidate.joins, |&(info, _)| info);
            return other.is_err()
                || other.is_ok_and(|at| self.candidates.as_slice()[self.infos.as_slice()[at].1].live);
        }
        let targets = self.targets.as_slice();
        self.waits.as_slice()[candidate.first..candidate.first + candidate.count].iter().any(|start| {
            targets.binary_search_by_key(start, |target| target.start).is_ok_and(|at| targets[at].found)
        })
    }
}

/// What a candidate waits for.
enum Wait {
    /// Nothing that could come.
    Nothing,
    /// One of the addresses of this allocation.
    Target(Range<usize>),
    /// The cases of a select.
    Select(&'static Place),
    /// The info of a goroutine.
    Join(usize),
    /// A lock, and in which crowd it stands there itself.
    Lock(Blockers, Option<Crowd>),
}

/// The addresses of its stack, its G and its thread-locals.
fn slot(g: &'static G) -> Range<usize> {
    // The guard comes first.
    let start = g.slot_start() + PAGE;
    start..start + g.slot_size()
}

/// Whether the thread runs code of the user's: not the scheduler on its own stack, and not one of the runtime's other threads.
fn runs_user_code(tid: u32) -> bool {
    let scheduler = |m: &m::M| m.tid() == tid && m.alive.load(Ordering::Relaxed) && m.current().is_none();
    !deadlock::is_own_thread(tid) && !m::all().any(scheduler)
}

fn address(g: &'static G) -> usize {
    ptr::from_ref(g) as usize
}

/// # Safety
/// The memory can be read, and nobody writes to it.
unsafe fn words<'a>(start: usize, end: usize) -> &'a [usize] {
    let start = start.next_multiple_of(size_of::<usize>());
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start as *const usize, (end - start) / size_of::<usize>()) }
}
