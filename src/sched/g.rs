//! G: a goroutine, and the memory it lives in.
//!
//! ```text
//! slot end    +--------------------------+
//!             | struct pthread           |  \ the private TLS block (tls/)
//!  tp ------> +--------------------------+  |
//!             | static TLS of modules    |  /
//!             +--------------------------+
//!             | G                        |  this struct
//!  &G ------> +--------------------------+  = base of the stack
//!             | stack, grows downwards   |
//!             |            ...           |  committed page by page
//!             +--------------------------+
//!             | guard page               |  a stack overflow faults here
//! slot start  +--------------------------+
//! ```
//! TLS block, G and the first frames share the top page: one page for a parked goroutine.
//!
//! Who may touch what:
//! - G1. A slot is never unmapped, so a `&'static G` is always readable; after the goroutine's end it is the
//!   next goroutine's.
//! - G2. Whoever took the G out of a queue, or runs it, owns every `Cell` of it and its stack. `park`, `status` and the
//!   `Peek`s are atomic and may be read by anybody.
//! - G3. Ownership passes through the queues (release on put, acquire on get) and through the park word.

use std::cell::Cell;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use super::futureword::FutureWord;
use super::m::M;
use super::parkword::ParkWord;
use super::peek::{PeekBool, PeekRef, PeekU8, PeekU32, PeekU64, PeekUsize};
use super::reason::WaitReason;
use super::status::Status;

/// Why a goroutine stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    /// It waits: see the park word.
    Park,
    /// It lets others run and stays runnable.
    Yield,
    /// It came back from a blocking call, or found its P taken away, and needs a P.
    NeedP,
    /// Its slice is over: it goes to the global queue.
    Preempt,
    /// It has ended.
    End,
    /// It has ended, and nothing is to be done about it any more.
    Gone,
    /// A goroutine that it has made runs first: see `first.rs`.
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
            Switch::End,
            Switch::Gone,
            Switch::AfterChild,
        ][number]
    }
}

/// With a wait reason: see [`G::set_wait`].
const TIMED: u8 = 0x80;

/// What is said about a goroutine in reports; lives in the join packet.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) name: Option<Arc<str>>,
    /// The context that limits its waits: see `context/ambient.rs`.
    pub(crate) context: AtomicPtr<()>,
}

/// The bits of `G::slot` that hold the size.
const SLOT_BITS: usize = 63;

/// Two cache lines: the first is what every switch touches.
#[repr(C, align(64))]
pub(crate) struct G {
    pub(crate) park: ParkWord,
    status: AtomicU8,
    /// How many of its line of descent, itself included, ran before their parents: see `first.rs`.
    pub(crate) firsts: AtomicU8,
    m: AtomicPtr<M>,
    /// The thread pointer of its TLS block while it uses it, 0 for a shared-TLS goroutine.
    pub(crate) tp: PeekUsize,
    /// Its stack pointer while it does not run.
    pub(crate) context: PeekUsize,
    /// The next G in whatever list it is in.
    pub(crate) link: Cell<*const G>,
    /// The M it is bound to: by lock_os_thread, or while it is stopped by a signal.
    pub(crate) locked_m: PeekRef<M>,
    /// The thread id that its TLS block has.
    pub(crate) tid: Cell<u32>,
    /// Nesting of lock_os_thread.
    pub(crate) lock_count: PeekU32,
    /// Inside `gort::blocking`.
    pub(crate) blocking: PeekBool,
    /// Its TLS block has been made; it has to be rebuilt before its next use.
    pub(crate) block_made: Cell<bool>,
    pub(crate) block_stale: Cell<bool>,
    /// The goroutine changed its thread-locals: the block has to be refreshed.
    pub(crate) block_used: Cell<bool>,
    wait_reason: AtomicU8,
    /// Where the futures that it waits for tell it to look again.
    pub(crate) future: FutureWord,
    /// The bubble it belongs to, or 0.
    pub(crate) bubble: PeekU8,

    pub(crate) id: AtomicU64,
    pub(crate) site: PeekRef<Location<'static>>,
    /// The join packet's [`Info`], as long as the goroutine lives.
    pub(crate) info: AtomicPtr<Info>,
    pub(crate) parent: PeekU64,
    pub(crate) wait_object: AtomicUsize,
    /// When the last pass of the trimmer was when it parked (`trim::PASS`).
    pub(crate) parked_at: AtomicU64,
    /// Thread pointer of the slot's TLS block.
    pub(crate) block: usize,
    /// Where the slot begins, a page boundary, and in the lowest bits the logarithm of its size.
    slot: AtomicUsize,
}

// SAFETY: see G2 and G3: the cells are owned by one thread at a time.
unsafe impl Sync for G {}
// SAFETY: as above.
unsafe impl Send for G {}

impl G {
    pub(crate) fn new(slot_start: usize, slot_size: usize, block: usize) -> G {
        G {
            park: ParkWord::new(),
            status: AtomicU8::new(Status::Dead as u8),
            firsts: AtomicU8::new(0),
            m: AtomicPtr::new(ptr::null_mut()),
            tp: PeekUsize::new(0),
            context: PeekUsize::new(0),
            link: Cell::new(ptr::null()),
            locked_m: PeekRef::new(),
            tid: Cell::new(0),
            lock_count: PeekU32::new(0),
            blocking: PeekBool::new(false),
            block_made: Cell::new(false),
            block_stale: Cell::new(false),
            block_used: Cell::new(false),
            wait_reason: AtomicU8::new(0),
            future: FutureWord::new(),
            bubble: PeekU8::new(0),
            id: AtomicU64::new(0),
            site: PeekRef::new(),
            info: AtomicPtr::new(ptr::null_mut()),
            parent: PeekU64::new(0),
            wait_object: AtomicUsize::new(0),
            parked_at: AtomicU64::new(0),
            block,
            slot: AtomicUsize::new(slot_start | slot_size.trailing_zeros() as usize),
        }
    }

    /// The lowest address of the slot: 0 while nobody has written a G here.
    pub(crate) fn slot_start(&self) -> usize {
        self.slot.load(Ordering::Relaxed) & !SLOT_BITS
    }

    pub(crate) fn slot_size(&self) -> usize {
        1 << (self.slot.load(Ordering::Relaxed) & SLOT_BITS)
    }

    /// `timed`: a timer may end the wait.
    #[inline]
    pub(crate) fn set_wait(&self, reason: WaitReason, object: usize, pass: u64, timed: bool) {
        self.wait_reason.store(reason as u8 | if timed { TIMED } else { 0 }, Ordering::Relaxed);
        self.wait_object.store(object, Ordering::Relaxed);
        self.parked_at.store(pass, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn status(&self) -> Status {
        Status::from_u8(self.status.load(Ordering::Relaxed))
    }

    /// For reports; nothing is synchronised by it.
    #[inline]
    pub(crate) fn set_status(&self, status: Status) {
        self.status.store(status as u8, Ordering::Relaxed);
    }

    /// The M that runs it. Meaningful to the goroutine itself and to that M.
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
        // Not written in vain: soon somebody reads it, and what was just written arrives later.
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

    /// Whether a timer may end its wait.
    pub(crate) fn wait_is_timed(&self) -> bool {
        self.wait_reason.load(Ordering::Relaxed) & TIMED != 0
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_g_has_two_cache_lines() {
        assert_eq!(std::mem::size_of::<super::G>(), 128);
    }
}
