//! Snapshots: what every goroutine does, and where it is.
//!
//! The world is not stopped. The report looks at each goroutine while that one cannot run:
//!
//! | goroutine | how |
//! | --- | --- |
//! | parked | the report holds it by its park word (`hold_parked.rs`); a wake-up takes effect afterwards |
//! | runnable | the report takes it out of its queue, and puts it into the global queue |
//! | stopped by a signal | as a runnable one; its handler has left the registers in its M |
//! | running, and using its CPU | the report sends a signal, and its handler answers (`ask_running.rs`) |
//! | in a marked blocking call | the call left its registers (`word/pinned_readers.rs`) |
//! | in an unmarked system call | no trace, because a signal could make the call fail with EINTR; |
//! | | but if the process is about to end, the report asks it like a running one |
//!
//! A goroutine may move from one group to another meanwhile, so there are a few rounds. A goroutine that
//! always escapes gets a header without a trace.
//!
//! While a goroutine is kept from running, the report allocates nothing and takes no lock that the goroutine
//! might hold: it may have been stopped inside the allocator.

use std::cell::OnceCell;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ask_running::{self, ANSWER_WITHIN};
use super::unwind::{self, Frames};
use crate::arch::{self, SignalFrame};
use crate::goroutine::labels::Labels;
use crate::sched::account::labels as set;
use crate::sched::block::marked_call;
use crate::sched::machine::{Machine, SCHED};
use crate::sched::park::hold_parked;
use crate::sched::queue::runq::BATCH;
use crate::sched::run::runtime_section;
use crate::sched::schedt::Locked;
use crate::sched::types::current::current;
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sched::word::pinned_readers;
use crate::sched::word::status::{Status, WaitReason};
use crate::sync::Holders;
use crate::sync::holder::StackPage;
use crate::sync::holder::reads::Reads;
use crate::sys::clock::nanotime;
use crate::sys::thread;

/// One goroutine, as it was at some moment.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) id: u64,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) labels: Labels,
    pub(crate) cpu_time: Duration,
    pub(crate) parent: u64,
    pub(crate) site: Option<&'static Location<'static>>,
    pub(crate) status: Status,
    /// If it waits: for what, and for about how long.
    pub(crate) wait: Option<(WaitReason, Duration)>,
    pub(crate) locked: bool,
    pub(crate) frames: Vec<usize>,
    /// If it waits for a lock: what holds the lock.
    pub(crate) holder: Option<Holder>,
    /// It is the goroutine that made the report.
    pub(crate) caller: bool,
}

/// The holders of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The goroutine with that id; `None`: a thread outside of gort.
    One(Option<u64>),
    /// The number of readers, and the ids of those that are known.
    Readers(u64, Vec<u64>),
}

/// What is copied while a goroutine is kept from running. It lies on the stack and allocates nothing.
struct Raw {
    g: &'static G,
    id: u64,
    name: Option<Arc<str>>,
    labels: set::Labels,
    /// CPU time (ns).
    cpu_time: u64,
    parent: u64,
    site: Option<&'static Location<'static>>,
    status: Status,
    wait: Option<(WaitReason, u64)>,
    locked: bool,
    frames: Frames,
    holders: Holders,
}

impl Raw {
    /// Copies what any thread may read at any time.
    fn peek(g: &'static G) -> Raw {
        Raw {
            g,
            id: g.id(),
            name: None,
            labels: set::Labels::NONE,
            cpu_time: 0,
            parent: g.parent.get(),
            site: g.site.get(),
            status: g.status(),
            wait: None,
            locked: g.lock_count.get() != 0,
            frames: Frames::new(),
            holders: Holders::Nobody,
        }
    }

    /// Copies what it is called.
    ///
    /// # Safety
    /// The goroutine has not ended and does not end meanwhile; and it is the caller's own, belongs to the
    /// caller, or the caller is a pinned reader.
    unsafe fn take_name(&mut self) {
        // SAFETY: the caller's promise.
        unsafe {
            self.name = self.g.info().and_then(|info| info.name.clone());
            self.labels = self.g.labels();
            self.cpu_time = self.g.info().map_or(0, |info| info.account.nanos());
        }
    }

    /// # Safety
    /// The goroutine is switched out and belongs to the caller.
    unsafe fn take_frames(&mut self) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(registers) = arch::saved_registers(self.g.context.get()) {
                unwind::stopped(&registers, self.g.slot.stack(), &mut self.frames);
            }
        }
    }

    /// The CPU time (ns) that it will be charged with when it stops, if it runs.
    fn pending(&self) -> u64 {
        let runs = matches!(self.status, Status::Running | Status::Syscall);
        let m = self.g.peek_m().filter(|m| runs && m.current().is_some_and(|g| ptr::eq(g, self.g)));
        m.map_or(0, |m| m.cpu_time.pending())
    }

    fn finish(&self, owners: &OnceCell<Owners>) -> Snapshot {
        let owners = || owners.get_or_init(Owners::look_up);
        let on_page = |page| owners().of_page(page, ptr::from_ref(self.g) as usize);
        let now = nanotime();
        let since = |then: u64| Duration::from_nanos(if then == 0 { 0 } else { now.saturating_sub(then) });
        Snapshot {
            id: self.id,
            name: self.name.clone(),
            labels: Labels(self.labels.clone()),
            cpu_time: Duration::from_nanos(self.cpu_time + self.pending()),
            parent: self.parent,
            site: self.site,
            status: self.status,
            wait: self.wait.map(|(reason, then)| (reason, since(then))),
            locked: self.locked,
            frames: self.frames.as_slice().to_vec(),
            holder: match self.holders {
                Holders::Nobody => None,
                Holders::Writer(page) => Some(Holder::One(on_page(page))),
                Holders::Readers { count, lock, upgradable } => {
                    let upgradable = upgradable.map(on_page).filter(|&id| id != Some(self.id));
                    let known = owners().readers_of(lock).chain(upgradable.flatten());
                    Some(Holder::Readers(count + u64::from(upgradable.is_some()), known.collect()))
                }
            },
            caller: false,
        }
    }
}

/// Which goroutines own which stacks and read locks: looked up once for a whole report.
struct Owners {
    /// Start and end of each stack with its guard, and the id of its goroutine; sorted by address.
    stacks: Vec<(usize, usize, u64)>,
    /// Addresses of locks, and the ids of goroutines that are known to have locked them for reading; sorted.
    reads: Vec<(usize, u64)>,
}

impl Owners {
    fn look_up() -> Owners {
        let (reads, mut owners) = (Reads::new(), Owners { stacks: Vec::new(), reads: Vec::new() });
        G::for_each(|g| {
            if g.status() != Status::Dead {
                owners.stacks.push((g.slot.start(), g.slot.stack().end, g.id()));
                owners.reads.extend(reads.of(g).map(|lock| (lock, g.id())));
            }
        });
        owners.stacks.sort_unstable();
        owners.reads.sort_unstable();
        owners
    }

    /// The goroutine whose stack has that page.
    fn of_page(&self, page: StackPage, near: usize) -> Option<u64> {
        let address = page.near(near);
        let after = self.stacks.partition_point(|&(start, ..)| start <= address);
        let &(_, end, id) = self.stacks[..after].last()?;
        (address < end).then_some(id)
    }

    fn readers_of(&self, lock: usize) -> impl Iterator<Item = u64> {
        let first = self.reads.partition_point(|&(other, _)| other < lock);
        let of_lock = self.reads[first..].iter().take_while(move |&&(other, _)| other == lock);
        of_lock.map(|&(_, id)| id)
    }
}

/// See [`Collection::patience`].
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Collection {
    owners: OnceCell<Owners>,
    pub(super) found: Vec<Snapshot>,
    seen: std::collections::HashSet<u64>,
    /// How much longer than usual goroutines may take to answer in a report before the end of the process.
    /// They share it, because threads that block the signal never answer.
    patience: Duration,
}

impl Collection {
    fn has(&self, g: &'static G) -> bool {
        self.seen.contains(&g.id())
    }

    fn add(&mut self, raw: &Raw) {
        if raw.id != 0 && self.seen.insert(raw.id) {
            self.found.push(raw.finish(&self.owners));
        }
    }
}

/// How many rounds the report makes for goroutines that escaped.
const ROUNDS: usize = 3;

/// One report at a time: they would keep taking goroutines from each other.
pub(super) static ONE: Mutex<()> = Mutex::new(());

/// Every goroutine, by id. `last_words`: the process is about to end, so system calls may be interrupted.
pub(crate) fn all(last_words: bool) -> Vec<Snapshot> {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut collection = Collection { patience: PATIENCE, ..Collection::default() };
    let own = current();
    if let Some(g) = own {
        let mut raw = Raw::peek(g);
        raw.status = Status::Running;
        // SAFETY: it is the calling one.
        unsafe { raw.take_name() };
        unwind::here(g.slot.stack(), &mut raw.frames);
        collection.add(&raw);
        collection.found[0].caller = true;
    }
    for _ in 0..ROUNDS {
        G::for_each(|g| {
            if g.park.is_parked() && !collection.has(g) {
                look_at_parked(g, &mut collection);
            }
        });
        if !SCHED.goroutine_is_queued() && !others(&collection) {
            break;
        }
        look_at_queues(&mut collection);
        G::for_each(|g| {
            if !collection.has(g) {
                match g.status() {
                    Status::Running => look_at_running(g, last_words, &mut collection),
                    Status::Syscall => look_at_syscall(g, last_words, &mut collection),
                    _ => {}
                }
            }
        });
    }
    G::for_each(|g| {
        if g.status() != Status::Dead && !collection.has(g) {
            let raw = peek_with_name(g);
            collection.add(&raw);
        }
    });
    collection.found.sort_by_key(|snapshot| (!snapshot.caller, snapshot.id));
    collection.found
}

/// Whether there are goroutines that were not seen yet.
fn others(collection: &Collection) -> bool {
    let mut some = false;
    G::for_each(|g| some |= g.status() != Status::Dead && !collection.has(g));
    some
}

pub(super) fn look_at_parked(g: &'static G, collection: &mut Collection) {
    let raw = hold_parked::while_held(g, || {
        let mut raw = Raw::peek(g);
        raw.status = Status::Waiting;
        let (reason, object) = (g.wait_reason(), g.wait_object.load(Ordering::Relaxed));
        raw.wait = Some((reason, g.parked_at.load(Ordering::Relaxed)));
        // SAFETY: we hold it, so it is switched out and stays so; and what it waits for is alive, because its
        // frames borrow it.
        unsafe {
            raw.take_name();
            raw.take_frames();
            raw.holders = Holders::of_wait(reason, object);
        }
        raw
    });
    if let Some(raw) = raw {
        collection.add(&raw);
    }
}

/// Takes every goroutine that is queued now out of its queue, looks at it, and puts it into the global one.
fn look_at_queues(collection: &mut Collection) {
    for _ in 0..SCHED.global_len() {
        look_at_popped(Locked::pop_global, Locked::push_global, collection);
    }
    for _ in 0..SCHED.preempted_len() {
        look_at_popped(Locked::pop_preempted, Locked::push_preempted, collection);
    }
    for p in SCHED.all_ps() {
        let mut left = p.runq.len();
        while left != 0 {
            let mut batch = [ptr::null_mut(); BATCH];
            let count = p.runq.steal(&mut batch, true);
            if count == 0 {
                break;
            }
            left = left.saturating_sub(count);
            // A goroutine's snapshot is added, which allocates, when it is back in a queue.
            for g in &batch[..count] {
                // SAFETY: the queue holds pointers to Gs only, and these are ours now.
                let raw = look_at_owned(unsafe { &**g });
                requeue(raw.g, Locked::push_global);
                collection.add(&raw);
            }
        }
    }
}

/// The scheduler lock, held.
type Queues = Locked<'static, Machine>;

fn look_at_popped(
    pop: fn(&mut Queues) -> Option<&'static G>,
    push: fn(&mut Queues, &'static G),
    collection: &mut Collection,
) {
    let section = runtime_section::enter();
    let popped = pop(&mut SCHED.lock());
    drop(section);
    if let Some(g) = popped {
        let raw = look_at_owned(g);
        requeue(g, push);
        collection.add(&raw);
    }
}

/// Looks at a goroutine that was taken out of a queue.
fn look_at_owned(g: &'static G) -> Raw {
    let mut raw = Raw::peek(g);
    // SAFETY: it is runnable and ours: it does not run. Its M, if a signal stopped it, waits in the handler.
    unsafe {
        raw.take_name();
        let interrupted = g.locked_m.get().map_or(ptr::null_mut(), |m| m.interrupted.load(Ordering::Relaxed));
        if raw.status == Status::Preempted && !interrupted.is_null() {
            let registers = SignalFrame::new(interrupted).registers();
            unwind::stopped(&registers, g.slot.stack(), &mut raw.frames);
        } else {
            raw.take_frames();
        }
    }
    raw
}

fn requeue(g: &'static G, push: fn(&mut Queues, &'static G)) {
    let section = runtime_section::enter();
    push(&mut SCHED.lock(), g);
    SCHED.wake_p();
    drop(section);
}

/// The header of a goroutine that keeps running.
fn peek_with_name(g: &'static G) -> Raw {
    let mut raw = Raw::peek(g);
    if let Some(reading) = pinned_readers::begin() {
        raw = Raw::peek(g);
        // SAFETY: if the info is there now it stays until we are done (`word/pinned_readers.rs`).
        unsafe { raw.take_name() };
        drop(reading);
    }
    raw
}

/// One goroutine with its name, and frames that were found in another way.
pub(crate) fn with_frames(g: &'static G, frames: Option<&Frames>) -> Snapshot {
    let mut raw = peek_with_name(g);
    raw.frames = frames.copied().unwrap_or(Frames::new());
    raw.finish(&OnceCell::new())
}

/// The frames of the goroutine that runs on `m`, which a signal interrupts for that. `None`: it did not
/// answer, or a dump is being made.
pub(crate) fn ask_one(m: &'static M) -> Option<Frames> {
    let _one = ONE.try_lock().ok()?;
    ask_running::ask(m, false, ANSWER_WITHIN).map(|answer| answer.frames)
}

pub(super) fn look_at_running(g: &'static G, last_words: bool, collection: &mut Collection) {
    let Some(m) = g.peek_m() else { return };
    let runs_there = m.current().is_some_and(|current| ptr::eq(current, g));
    if runs_there && (last_words || computes(m.tid())) {
        ask_it(m, Status::Running, last_words, collection);
    }
}

/// Whether the thread uses its CPU for a while, so that it is likely not in, or about to enter, a system call
/// that a signal would interrupt.
fn computes(tid: u32) -> bool {
    const ENOUGH: u64 = 200_000;
    const LOOK_FOR: Duration = Duration::from_millis(20);
    let Some(before) = thread::cpu_nanos(tid) else { return false };
    let start = Instant::now();
    while start.elapsed() < LOOK_FOR {
        if thread::is_asleep(tid) == Some(true) {
            return false;
        }
        if thread::cpu_nanos(tid).is_some_and(|now| now.saturating_sub(before) >= ENOUGH) {
            return true;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    false
}

pub(super) fn look_at_syscall(g: &'static G, last_words: bool, collection: &mut Collection) {
    if let Some(reading) = pinned_readers::begin() {
        let mut raw = Raw::peek(g);
        if let Some(registers) = marked_call::registers_of(g, &reading) {
            // SAFETY: the call does not return while we read, so the goroutine does not end, and the frames
            // from the call's caller on stay as they are.
            unsafe {
                raw.take_name();
                unwind::stopped(registers, g.slot.stack(), &mut raw.frames);
            }
            drop(reading);
            raw.status = Status::Syscall;
            collection.add(&raw);
            return;
        }
    }
    if last_words && let Some(m) = g.peek_m() {
        ask_it(m, Status::Syscall, last_words, collection);
    }
}

fn ask_it(m: &'static M, status: Status, last_words: bool, collection: &mut Collection) {
    let start = Instant::now();
    let more = if last_words { collection.patience } else { Duration::ZERO };
    let answer = ask_running::ask(m, last_words, ANSWER_WITHIN + more);
    collection.patience = collection.patience.saturating_sub(start.elapsed().saturating_sub(ANSWER_WITHIN));
    if let Some(answer) = answer
        && let Some(g) = answer.goroutine
    {
        let mut raw = Raw::peek(g);
        raw.status = status;
        raw.name = answer.name;
        raw.labels = answer.labels;
        raw.cpu_time = answer.cpu_time;
        raw.frames = answer.frames;
        collection.add(&raw);
    }
}
