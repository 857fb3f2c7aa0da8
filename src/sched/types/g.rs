//! G: a goroutine. It lies above its stack in a slot; `stack/mod.rs` has a picture.
//!
//! Ownership:
//! - G1. A slot is never unmapped, so a `&'static G` is always readable. After the goroutine's end, the next
//!   goroutine uses it.
//! - G2. The thread that took the G out of a queue, or runs it, owns every `Cell` of it and its stack.
//!   `park`, `status` and the owner cells may be read by any thread.
//! - G3. Ownership passes through the queues (release on put, acquire on get) and through the park word.
//! - G4. While `in_runtime` is not 0, neither sysmon nor a signal handler takes the P away or stops the
//!   goroutine (`block/unmarked.rs`, `monitor/preempt.rs`). While it is 0, a signal may move the goroutine
//!   to another M between any two instructions: what [`G::m`] returned before is out of date then.

use std::cell::Cell;
use std::mem::offset_of;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use super::m::M;
use crate::base::list::{Linked, List};
use crate::base::owner_cell::{OwnerBool, OwnerRef, OwnerU8, OwnerU32, OwnerU64, OwnerUsize};
use crate::sched::account::cpu_time::GoroutineTime;
use crate::sched::account::labels::Labels;
use crate::sched::event::EVENTS;
use crate::sched::queue::fork_table::ForkPlace;
use crate::sched::word::future_word::FutureWord;
use crate::sched::word::park_word::ParkWord;
use crate::sched::word::status::{Status, WaitReason};
use crate::stack::slot::Slot;

/// Why a goroutine stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    /// It waits: see the park word.
    Park,
    /// It lets others run and stays runnable.
    Yield,
    /// It came back from a blocking call, or found its P taken away, and needs a P.
    NeedP,
    /// Its slice is over: it goes to the queue of preempted goroutines.
    Preempt,
    /// A signal stopped it because its slice is over (`monitor/interrupted.rs`): as for `Preempt`.
    Interrupted,
    /// It has ended.
    End,
    /// It has ended, and its slot is already in the P's cache (`end_in_place`).
    Gone,
    /// A goroutine that it has made runs first: see `run/child_first.rs`.
    AfterChild,
}

impl Switch {
    #[inline]
    pub(crate) fn from_number(number: usize) -> Switch {
        [
            Switch::Park,
            Switch::Yield,
            Switch::NeedP,
            Switch::Preempt,
            Switch::Interrupted,
            Switch::End,
            Switch::Gone,
            Switch::AfterChild,
        ][number]
    }
}

/// Kinds of state of a thread that a goroutine may have changed (`block/thread_state.rs`).
pub(crate) mod thread_state {
    /// The mask of blocked signals.
    pub(crate) const MASK: u8 = 1;
    /// Policy, priority, niceness, affinity.
    pub(crate) const SCHEDULING: u8 = 2;
    /// Whether and how the thread can be cancelled; this is in the TLS block.
    pub(crate) const CANCELLATION: u8 = 4;
    /// It is inside `dl_iterate_phdr`, with the loader's lock. It is not bound, but not moved by a signal.
    pub(crate) const LOADER: u8 = 8;
    /// The kinds for which the goroutine is bound to its thread.
    pub(crate) const BINDING: u8 = MASK | SCHEDULING;
}

/// Flag beside the wait reason: a timer may end the wait ([`G::set_wait`]).
const TIMED: u8 = 0x80;
/// Flag beside the wait reason: the wait is measured ([`G::measure_wait`]).
const MEASURED: u8 = 0x40;
/// Flag beside the status: see [`G::mark_status`].
const MARK: u8 = 0x80;
/// Both flags beside the wait reason.
const FLAGS: u8 = TIMED | MEASURED;
const _: () = assert!(WaitReason::COUNT <= MEASURED as usize);

/// What reports say about a goroutine; it lives in the join packet.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) name: Option<Arc<str>>,
    /// What limits its waits: see `park/limit.rs`.
    pub(crate) limit: AtomicPtr<()>,
    /// Its labels, and the CPU time that it has used.
    pub(crate) account: GoroutineTime,
    /// Its pending forks, while it is in a `join` (`goroutine/fork/`).
    pub(crate) forks: OwnerRef<ForkPlace>,
}

impl Info {
    #[inline]
    pub(crate) fn new(name: Option<Arc<str>>, labels: Labels) -> Info {
        Info {
            name,
            limit: AtomicPtr::new(ptr::null_mut()),
            account: GoroutineTime::new(labels),
            forks: OwnerRef::new(),
        }
    }
}

/// Two cache lines: the first is what every switch touches.
#[repr(C, align(64))]
pub(crate) struct G {
    pub(crate) park: ParkWord,
    status: AtomicU8,
    /// Length of the chain of ancestors, itself included, that each ran before its parent: see
    /// `run/child_first.rs`.
    pub(crate) firsts: AtomicU8,
    /// How many nested runtime sections it is in (G4). A goroutine starts, stops and ends in one.
    pub(crate) in_runtime: Depth,
    /// The test that it belongs to, or 0: see `runtime/deny_leaks.rs`. Its children belong to it, too.
    pub(crate) test: OwnerU8,
    m: AtomicPtr<M>,
    /// The thread pointer of its TLS block while it uses it, 0 for a shared-TLS goroutine.
    pub(crate) tp: OwnerUsize,
    /// Its stack pointer while it does not run.
    pub(crate) context: OwnerUsize,
    /// The next G in the list that it is in.
    pub(crate) link: Cell<*const G>,
    /// The M it is bound to: by lock_os_thread, or while it waits in the handler of a signal.
    pub(crate) locked_m: OwnerRef<M>,
    /// The number of the M whose malloc cache its TLS block uses (`tls/malloc_cache.rs`).
    pub(crate) m_number: Cell<u32>,
    /// Nesting of lock_os_thread.
    pub(crate) lock_count: OwnerU32,
    /// Inside `gort::blocking`.
    pub(crate) blocking: OwnerBool,
    /// Its TLS block has been made.
    pub(crate) block_made: Cell<bool>,
    /// Its TLS block has to be rebuilt before its next use.
    pub(crate) block_stale: Cell<bool>,
    /// The goroutine changed its thread-locals: the block has to be refreshed.
    pub(crate) block_used: Cell<bool>,
    wait_reason: AtomicU8,
    /// The word through which the futures that it polls wake it.
    pub(crate) future: FutureWord,
    /// The bubble it belongs to, or 0.
    pub(crate) bubble: OwnerU8,
    /// What it has changed of the state of a thread: see [`thread_state`].
    pub(crate) thread_state: OwnerU8,

    pub(crate) id: AtomicU64,
    pub(crate) site: OwnerRef<Location<'static>>,
    /// The join packet's [`Info`], as long as the goroutine lives.
    pub(crate) info: AtomicPtr<Info>,
    pub(crate) parent: OwnerU64,
    pub(crate) wait_object: AtomicUsize,
    /// The time when it parked (ns): of the coarse clock, unless the wait is measured. While it is runnable,
    /// the time when it became that, if latencies are watched (`event/latency_watch.rs`).
    pub(crate) parked_at: AtomicU64,
    /// Its stack and its TLS block.
    pub(crate) slot: Slot,
}

/// What a debugger shows of a goroutine (`diag/gdb/`): offsets of fields, and the flags beside the wait
/// reason.
pub(crate) const FOR_DEBUGGERS: [(&str, *const ()); 14] = [
    ("g.status", ptr::without_provenance(offset_of!(G, status))),
    ("g.m", ptr::without_provenance(offset_of!(G, m))),
    ("g.context", ptr::without_provenance(offset_of!(G, context))),
    ("g.lock_count", ptr::without_provenance(offset_of!(G, lock_count))),
    ("g.wait_reason", ptr::without_provenance(offset_of!(G, wait_reason))),
    ("g.bubble", ptr::without_provenance(offset_of!(G, bubble))),
    ("g.id", ptr::without_provenance(offset_of!(G, id))),
    ("g.site", ptr::without_provenance(offset_of!(G, site))),
    ("g.info", ptr::without_provenance(offset_of!(G, info))),
    ("g.parent", ptr::without_provenance(offset_of!(G, parent))),
    ("g.parked_at", ptr::without_provenance(offset_of!(G, parked_at))),
    ("g.place", ptr::without_provenance(offset_of!(G, slot) + Slot::PLACE)),
    ("info.name", ptr::without_provenance(offset_of!(Info, name))),
    ("wait flags", ptr::without_provenance(FLAGS as usize)),
];

/// A count that only the goroutine itself, or a signal handler on its thread, changes. Other threads read it.
pub(crate) struct Depth(AtomicU8);

impl Depth {
    #[inline]
    pub(crate) fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, depth: u8) {
        self.0.store(depth, Ordering::Relaxed);
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr()
    }
}

/// Goroutines linked through `G::link`.
pub(crate) type GList = List<G>;

impl Linked for G {
    fn link(&self) -> &Cell<*const G> {
        &self.link
    }
}

// SAFETY: see G2 and G3: the cells are owned by one thread at a time.
unsafe impl Sync for G {}
// SAFETY: as above.
unsafe impl Send for G {}

impl G {
    pub(crate) fn new(slot: Slot) -> G {
        G {
            park: ParkWord::new(),
            status: AtomicU8::new(Status::Dead as u8),
            firsts: AtomicU8::new(0),
            in_runtime: Depth(AtomicU8::new(1)),
            test: OwnerU8::new(0),
            m: AtomicPtr::new(ptr::null_mut()),
            tp: OwnerUsize::new(0),
            context: OwnerUsize::new(0),
            link: Cell::new(ptr::null()),
            locked_m: OwnerRef::new(),
            m_number: Cell::new(0),
            lock_count: OwnerU32::new(0),
            blocking: OwnerBool::new(false),
            block_made: Cell::new(false),
            block_stale: Cell::new(false),
            block_used: Cell::new(false),
            wait_reason: AtomicU8::new(0),
            future: FutureWord::new(),
            bubble: OwnerU8::new(0),
            thread_state: OwnerU8::new(0),
            id: AtomicU64::new(0),
            site: OwnerRef::new(),
            info: AtomicPtr::new(ptr::null_mut()),
            parent: OwnerU64::new(0),
            wait_object: AtomicUsize::new(0),
            parked_at: AtomicU64::new(0),
            slot,
        }
    }

    /// What reports say about it; `None` at its very end.
    ///
    /// # Safety
    /// The goroutine has not ended and does not end while the result is used.
    pub(crate) unsafe fn info<'a>(&self) -> Option<&'a Info> {
        // SAFETY: the caller promises that the packet is alive. Acquire pairs with `spawn::fill`.
        unsafe { self.info.load(Ordering::Acquire).as_ref() }
    }

    /// Its labels; none at its very end.
    ///
    /// # Safety
    /// As [`info`](G::info), and the caller is one of those that `account/labels.rs` lists: the goroutine
    /// itself, a signal handler that interrupts it, its owner, or a pinned reader.
    #[inline]
    pub(crate) unsafe fn labels(&self) -> Labels {
        // SAFETY: the caller's promise.
        unsafe { self.info().map_or(Labels::NONE, |info| info.account.labels.get()) }
    }

    /// Records for reports that it is about to wait. `now` is the time of the coarse clock; `timed`: a timer
    /// may end the wait.
    #[inline]
    pub(crate) fn set_wait(&self, reason: WaitReason, object: usize, now: u64, timed: bool) {
        self.wait_reason.store(reason as u8 | if timed { TIMED } else { 0 }, Ordering::Relaxed);
        self.wait_object.store(object, Ordering::Relaxed);
        self.parked_at.store(now, Ordering::Relaxed);
    }

    /// After [`set_wait`](G::set_wait): has the wait measured, from `now` on (`types/wait_times.rs`).
    #[cold]
    pub(crate) fn measure_wait(&self, now: u64) {
        self.wait_reason.store(self.wait_reason.load(Ordering::Relaxed) | MEASURED, Ordering::Relaxed);
        self.parked_at.store(now, Ordering::Relaxed);
    }

    /// Whether its wait, which has just ended, was measured.
    #[inline]
    pub(crate) fn wait_is_measured(&self) -> bool {
        self.wait_reason.load(Ordering::Relaxed) & MEASURED != 0
    }

    /// It has become runnable at the time `now` (ns), and belongs to the caller. For observers.
    #[inline]
    pub(crate) fn became_runnable(&self, now: u64) {
        if EVENTS.latency.is_on() {
            self.parked_at.store(now, Ordering::Relaxed);
        }
    }

    /// It begins to run at the time `now` (ns), on the caller's M. For observers.
    #[inline]
    pub(crate) fn begins_to_run(&self, now: u64) {
        // Goroutines of a bubble take turns.
        if EVENTS.latency.is_on() && self.bubble.get() == 0 {
            EVENTS.latency.see(self.parked_at.load(Ordering::Relaxed), now);
        }
    }

    /// For a new goroutine, which has not waited yet.
    #[inline]
    pub(crate) fn forget_wait(&self) {
        self.wait_reason.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn status(&self) -> Status {
        Status::from_u8(self.status.load(Ordering::Relaxed) & !MARK)
    }

    /// Marks its present status. The mark is gone as soon as the status is set again, even to the same one:
    /// so the stall watchdog sees whether a goroutine has moved, at no cost to the goroutine. True: it was
    /// not marked before.
    pub(crate) fn mark_status(&self) -> bool {
        self.status.fetch_or(MARK, Ordering::Relaxed) & MARK == 0
    }

    /// Takes the mark away, if it is still there.
    #[cfg(feature = "debug")]
    pub(crate) fn unmark_status(&self) {
        let marked = self.status.load(Ordering::Relaxed) | MARK;
        // If it fails, the status was set, which has removed the mark.
        let _ = self.status.compare_exchange(marked, marked & !MARK, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the status has not been set since it was marked. Acquire: what the caller reads afterwards,
    /// and a SeqCst fence what it read before, is as old as the mark.
    pub(crate) fn has_marked_status(&self) -> bool {
        self.status.load(Ordering::Acquire) & MARK != 0
    }

    /// For reports; it synchronises nothing.
    #[inline]
    pub(crate) fn set_status(&self, status: Status) {
        self.status.store(status as u8, Ordering::Relaxed);
    }

    /// The M that runs it. Meaningful to that M, and to the goroutine itself inside the runtime (G4).
    #[inline]
    pub(crate) fn m(&self) -> &'static M {
        // SAFETY: set at every switch-in to the M that runs it; Ms are never freed.
        unsafe { &*self.m.load(Ordering::Relaxed) }
    }

    /// For reports: the M that runs it or ran it last.
    pub(crate) fn peek_m(&self) -> Option<&'static M> {
        // SAFETY: Ms are never freed; Acquire, because their making was published to another thread.
        unsafe { self.m.load(Ordering::Acquire).as_ref() }
    }

    #[inline]
    pub(crate) fn set_m(&self, m: &'static M) {
        // Written only if it changes: it is read again soon, and a load right after a store to it takes
        // longer.
        if !ptr::eq(self.m.load(Ordering::Relaxed), m) {
            self.m.store(ptr::from_ref(m).cast_mut(), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    pub(crate) fn wait_reason(&self) -> WaitReason {
        WaitReason::from_u8(self.wait_reason.load(Ordering::Relaxed) & !FLAGS)
    }

    /// Whether a timer or I/O ended its last wait, or may have. Such a goroutine will likely run only
    /// briefly.
    pub(crate) fn waited_for_time_or_io(&self) -> bool {
        self.wait_is_timed() || self.wait_reason().is_for_time_or_io()
    }

    /// Whether a timer may end its wait.
    pub(crate) fn wait_is_timed(&self) -> bool {
        self.wait_reason.load(Ordering::Relaxed) & TIMED != 0
    }
}
