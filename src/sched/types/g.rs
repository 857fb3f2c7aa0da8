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
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use super::m::M;
use super::status::{Status, WaitReason};
use crate::base::list::{Linked, List};
use crate::base::owner_cell::{OwnerBool, OwnerRef, OwnerU8, OwnerU32, OwnerU64, OwnerUsize};
use crate::sched::word::future_word::FutureWord;
use crate::sched::word::park_word::ParkWord;
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

/// What reports say about a goroutine; it lives in the join packet.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) name: Option<Arc<str>>,
    /// What limits its waits: see `park/limit.rs`.
    pub(crate) limit: AtomicPtr<()>,
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
    m: AtomicPtr<M>,
    /// The thread pointer of its TLS block while it uses it, 0 for a shared-TLS goroutine.
    pub(crate) tp: OwnerUsize,
    /// Its stack pointer while it does not run.
    pub(crate) context: OwnerUsize,
    /// The next G in the list that it is in.
    pub(crate) link: Cell<*const G>,
    /// The M it is bound to: by lock_os_thread, or while it is stopped by a signal.
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
    /// The time of the coarse clock when it parked (ns).
    pub(crate) parked_at: AtomicU64,
    /// Its stack and its TLS block.
    pub(crate) slot: Slot,
}

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

    /// Records for reports that it is about to wait. `now` is the time of the coarse clock; `timed`: a timer
    /// may end the wait.
    #[inline]
    pub(crate) fn set_wait(&self, reason: WaitReason, object: usize, now: u64, timed: bool) {
        self.wait_reason.store(reason as u8 | if timed { TIMED } else { 0 }, Ordering::Relaxed);
        self.wait_object.store(object, Ordering::Relaxed);
        self.parked_at.store(now, Ordering::Relaxed);
    }

    /// For a new goroutine, which has not waited yet.
    #[inline]
    pub(crate) fn forget_wait(&self) {
        self.wait_reason.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn status(&self) -> Status {
        Status::from_u8(self.status.load(Ordering::Relaxed))
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
        WaitReason::from_u8(self.wait_reason.load(Ordering::Relaxed) & !TIMED)
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
