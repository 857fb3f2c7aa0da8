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
//! - G2. Whoever took the G out of a queue, or runs it, owns every `Cell` of it and its stack. `park` and
//!   `status` are atomic and may be read by anybody.
//! - G3. Ownership passes through the queues (release on put, acquire on get) and through the park word.

use std::cell::{Cell, UnsafeCell};
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, Yielder};

use super::m::M;
use super::parkword::ParkWord;
use super::reason::WaitReason;
use super::status::Status;

/// Why a goroutine switched to g0.
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
}

pub(crate) type Context = Coroutine<(), Switch, (), SlotStack>;

/// The part of a slot below its G.
pub(crate) struct SlotStack(pub(crate) &'static G);

// SAFETY: base and limit bound the slot's stack, with a guard page at the limit.
unsafe impl Stack for SlotStack {
    #[inline]
    fn base(&self) -> StackPointer {
        StackPointer::new(ptr::from_ref(self.0) as usize).expect("a reference is not null")
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        StackPointer::new(self.0.slot_start).expect("slots do not start at address 0")
    }
}

/// What is said about a goroutine in reports; lives in the join packet.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) name: Option<Arc<str>>,
}

#[repr(C, align(64))]
pub(crate) struct G {
    pub(crate) park: ParkWord,
    status: AtomicU32,
    m: AtomicPtr<M>,
    /// The thread pointer of its TLS block while it uses it, 0 for a shared-TLS goroutine.
    pub(crate) tp: Cell<usize>,
    pub(crate) context: UnsafeCell<Option<Context>>,
    yielder: Cell<*const Yielder<(), Switch>>,
    /// The next G in whatever list it is in.
    pub(crate) link: Cell<*const G>,

    pub(crate) id: AtomicU64,
    pub(crate) site: Cell<Option<&'static Location<'static>>>,
    /// The join packet's [`Info`], as long as the goroutine lives.
    pub(crate) info: AtomicPtr<Info>,
    pub(crate) parent: Cell<u64>,
    pub(crate) wait_reason: AtomicU8,
    pub(crate) wait_object: AtomicUsize,
    /// The trimmer's pass during which it parked.
    pub(crate) parked_at: AtomicU64,
    /// Where its stack ended, roughly, when it last switched to g0.
    pub(crate) stack_pointer: Cell<usize>,
    /// Its stack was shrunk since it last ran.
    pub(crate) shrunk: Cell<bool>,
    /// Inside `gort::blocking`.
    pub(crate) blocking: Cell<bool>,
    /// Nesting of lock_os_thread; the M it is bound to.
    pub(crate) lock_count: Cell<u32>,
    pub(crate) locked_m: Cell<Option<&'static M>>,

    pub(crate) slot_start: usize,
    slot_size: usize,
    /// Thread pointer of the slot's TLS block, and whether the block has been made.
    pub(crate) block: usize,
    pub(crate) block_made: Cell<bool>,
    /// The block has to be rebuilt before its next use.
    pub(crate) block_stale: Cell<bool>,
}

// SAFETY: see G2 and G3: the cells are owned by one thread at a time.
unsafe impl Sync for G {}
// SAFETY: as above.
unsafe impl Send for G {}

impl G {
    pub(crate) fn new(slot_start: usize, slot_size: usize, block: usize) -> G {
        G {
            park: ParkWord::new(),
            status: AtomicU32::new(Status::Dead as u32),
            m: AtomicPtr::new(ptr::null_mut()),
            tp: Cell::new(0),
            context: UnsafeCell::new(None),
            yielder: Cell::new(ptr::null()),
            link: Cell::new(ptr::null()),
            id: AtomicU64::new(0),
            site: Cell::new(None),
            info: AtomicPtr::new(ptr::null_mut()),
            parent: Cell::new(0),
            wait_reason: AtomicU8::new(0),
            wait_object: AtomicUsize::new(0),
            parked_at: AtomicU64::new(0),
            stack_pointer: Cell::new(0),
            shrunk: Cell::new(false),
            blocking: Cell::new(false),
            lock_count: Cell::new(0),
            locked_m: Cell::new(None),
            slot_start,
            slot_size,
            block,
            block_made: Cell::new(false),
            block_stale: Cell::new(false),
        }
    }

    #[inline]
    pub(crate) fn status(&self) -> Status {
        Status::from_u32(self.status.load(Ordering::Relaxed))
    }

    /// For reports; nothing is synchronised by it.
    #[inline]
    pub(crate) fn set_status(&self, status: Status) {
        self.status.store(status as u32, Ordering::Relaxed);
    }

    /// The M that runs it. Meaningful to the goroutine itself and to that M.
    #[inline]
    pub(crate) fn m(&self) -> &'static M {
        // SAFETY: set at every switch-in to the M that runs it; Ms are never freed.
        unsafe { &*self.m.load(Ordering::Relaxed) }
    }

    #[inline]
    pub(crate) fn set_m(&self, m: &'static M) {
        self.m.store(ptr::from_ref(m).cast_mut(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    pub(crate) fn slot_start(&self) -> usize {
        self.slot_start
    }

    pub(crate) fn slot_size(&self) -> usize {
        self.slot_size
    }

    pub(crate) fn wait_reason(&self) -> WaitReason {
        WaitReason::from_u8(self.wait_reason.load(Ordering::Relaxed))
    }

    pub(crate) fn set_yielder(&self, yielder: &Yielder<(), Switch>) {
        self.yielder.set(yielder);
    }

    /// Switches from the goroutine to its M's g0. Returns when some M switches back.
    ///
    /// # Safety
    /// Called by the goroutine itself, inside a runtime section (see `section.rs`).
    #[inline]
    pub(crate) unsafe fn switch_to_g0(&self, why: Switch) {
        let here = 0u8;
        self.stack_pointer.set(&raw const here as usize);
        self.shrunk.set(false);
        // SAFETY: the yielder lives at the base of this goroutine's stack as long as the goroutine does.
        unsafe { (*self.yielder.get()).suspend(why) }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_g_leaves_most_of_its_page_to_tls_and_stack() {
        assert!(std::mem::size_of::<super::G>() <= 256, "{}", std::mem::size_of::<super::G>());
    }
}
