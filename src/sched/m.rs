//! M: an OS thread that runs goroutines. Its own stack is g0: the scheduler runs there.
//!
//! - M1. The `Cell`s belong to the M's thread, except while it is stopped: then whoever took it off the idle list
//!   (or, for a locked M, readied its goroutine) sets `next_p` and `spinning` and sets the Note.
//! - M2. While `in_runtime` is not 0 neither sysmon nor a signal handler takes the P away (`detach.rs`).
//! - M3. Ms are never freed; an M whose thread ended is reused by the next thread.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use super::g::{G, Switch};
use super::lock::RawLock;
use super::note::Note;
use super::p::P;
use super::peek::{PeekBool, PeekRef, PeekUsize};
use crate::sys::thread;
use crate::tls;

pub(crate) struct M {
    pub(crate) id: u32,
    /// How deep this M's thread is inside the runtime (M2).
    pub(crate) in_runtime: Depth,
    p: AtomicPtr<P>,
    current: AtomicPtr<G>,
    /// The thread's own thread pointer, and the one that is in the register now.
    own_tp: Cell<usize>,
    tp: Cell<usize>,
    tid: AtomicU32,
    /// The address of `CURRENT` in the thread's own TLS, for shared-TLS goroutines.
    pub(crate) current_slot: Cell<*const Cell<*const G>>,
    pub(crate) random: Cell<u64>,
    /// g0's stack pointer while a goroutine runs, and what that goroutine asked for when it came back.
    pub(crate) g0: Cell<usize>,
    pub(crate) why: Cell<Switch>,
    /// The goroutine that stopped is to run on at once.
    pub(crate) go_on: Cell<bool>,
    /// The P that it left in `Syscall` when it entered a blocking call.
    pub(crate) syscall_p: Cell<Option<&'static P>>,
    /// Held by sysmon while it tries to take the P away.
    pub(crate) detaching: RawLock,
    /// sysmon's: the CPU time of its thread when it was first seen without a P, or 0.
    pub(crate) cpu_when_detached: Cell<u64>,
    /// What the signal handler was given that has stopped its goroutine, as long as it is stopped.
    pub(crate) interrupted: AtomicPtr<c_void>,
    /// A signal is on its way to it.
    pub(crate) signalled: AtomicBool,

    /// The CPU that its thread was on when it began to wait: the kernel will likely wake it there.
    pub(crate) cpu: PeekUsize,
    pub(crate) spinning: PeekBool,
    pub(crate) note: Note,
    pub(crate) next_p: Cell<Option<&'static P>>,
    /// The next M in the idle list.
    pub(crate) link: Cell<Option<&'static M>>,
    /// In the idle list; guarded by the scheduler lock.
    pub(crate) idle: Cell<bool>,
    /// The goroutine bound to this M by lock_os_thread.
    pub(crate) locked_g: PeekRef<G>,
    /// Its thread is running.
    pub(crate) alive: AtomicBool,
    next_made: Cell<Option<&'static M>>,
}

/// In `M::p`: sysmon is about to take the P away.
const LEAVING: usize = 1;

/// A count that only the M's own thread changes, and that sysmon reads.
pub(crate) struct Depth(AtomicU32);

impl Depth {
    #[inline]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, depth: u32) {
        self.0.store(depth, Ordering::Relaxed);
    }
}

// SAFETY: see M1.
unsafe impl Sync for M {}

impl M {
    fn new(id: u32) -> M {
        M {
            id,
            in_runtime: Depth(AtomicU32::new(1)),
            p: AtomicPtr::new(ptr::null_mut()),
            current: AtomicPtr::new(ptr::null_mut()),
            own_tp: Cell::new(0),
            tp: Cell::new(0),
            tid: AtomicU32::new(0),
            current_slot: Cell::new(ptr::null()),
            random: Cell::new(0x9E37_79B9_7F4A_7C15 ^ u64::from(id + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93)),
            g0: Cell::new(0),
            why: Cell::new(Switch::Park),
            go_on: Cell::new(false),
            syscall_p: Cell::new(None),
            detaching: RawLock::new(),
            cpu_when_detached: Cell::new(0),
            interrupted: AtomicPtr::new(ptr::null_mut()),
            signalled: AtomicBool::new(false),
            cpu: PeekUsize::new(0),
            spinning: PeekBool::new(false),
            note: Note::new(),
            next_p: Cell::new(None),
            link: Cell::new(None),
            idle: Cell::new(false),
            locked_g: PeekRef::new(),
            alive: AtomicBool::new(false),
            next_made: Cell::new(None),
        }
    }

    /// Its P, if it has one.
    #[inline]
    pub(crate) fn p(&self) -> Option<&'static P> {
        // SAFETY: Ps are never freed.
        unsafe { self.p.load(Ordering::Relaxed).map_addr(|address| address & !LEAVING).as_ref() }
    }

    /// Whether it has a P that nobody is about to take away: the first question inside the runtime (`detach.rs`).
    #[inline]
    pub(crate) fn has_p(&self) -> bool {
        let p = self.p.load(Ordering::Relaxed);
        !p.is_null() && p.addr() & LEAVING == 0
    }

    #[inline]
    pub(crate) fn set_p(&'static self, p: Option<&'static P>) {
        if let Some(p) = p {
            p.m.store(ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
        }
        self.p.store(p.map_or(ptr::null_mut(), |p| ptr::from_ref(p).cast_mut()), Ordering::Relaxed);
    }

    /// Sleeps until somebody hands it a P, to go on with the goroutine that it has.
    pub(crate) fn wait_for_p(&'static self) {
        self.cpu.set(thread::cpu());
        self.note.wait();
        let p = self.next_p.take();
        self.set_p(p);
        if let Some(p) = p {
            p.begin_slice();
            p.answer_preempt();
        }
    }

    /// For sysmon: begins to take `p` away, if the M has it.
    pub(crate) fn begin_detach(&self, p: &'static P) -> bool {
        let p = ptr::from_ref(p).cast_mut();
        let leaving = p.map_addr(|address| address | LEAVING);
        self.p.compare_exchange(p, leaving, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Takes the P away after all, or leaves it. False: it stays, or the M's own thread has disposed of it meanwhile.
    pub(crate) fn end_detach(&self, p: &'static P, take: bool) -> bool {
        let p = ptr::from_ref(p).cast_mut();
        let leaving = p.map_addr(|address| address | LEAVING);
        let after = if take { ptr::null_mut() } else { p };
        self.p.compare_exchange(leaving, after, Ordering::SeqCst, Ordering::Relaxed).is_ok() && take
    }

    /// The goroutine that runs on it.
    #[inline]
    pub(crate) fn current(&self) -> Option<&'static G> {
        // SAFETY: Gs are never unmapped.
        unsafe { self.current.load(Ordering::Relaxed).as_ref() }
    }

    #[inline]
    pub(crate) fn set_current(&self, g: Option<&'static G>) {
        self.current.store(g.map_or(ptr::null_mut(), |g| ptr::from_ref(g).cast_mut()), Ordering::Relaxed);
    }

    /// Called by the M's thread when it starts.
    pub(crate) fn adopt_thread(&self, tid: u32, current_slot: *const Cell<*const G>) {
        self.own_tp.set(tls::current());
        self.tp.set(tls::current());
        self.tid.store(tid, Ordering::Relaxed);
        self.current_slot.set(current_slot);
        // A signal may have come when the thread before had ended already.
        self.signalled.store(false, Ordering::Relaxed);
    }

    /// Its thread's own thread pointer. For that thread only (M1).
    pub(crate) fn own_tp(&self) -> usize {
        self.own_tp.get()
    }

    /// The kernel's id of its thread.
    #[inline]
    pub(crate) fn tid(&self) -> u32 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Puts the thread pointer where `g` needs it.
    #[inline]
    pub(crate) fn use_tls_of(&self, g: &'static G) {
        let block = g.tp.get();
        let tp = if block == 0 { self.own_tp.get() } else { block };
        if block == 0 {
            // SAFETY: the slot lies in this thread's own TLS, which lives as long as the thread.
            unsafe { (*self.current_slot.get()).set(g) };
        } else if g.tid.get() != self.tid() {
            g.tid.set(self.tid());
            // SAFETY: we own g, so nobody else runs on its block.
            unsafe { tls::block::set_tid(block, self.tid()) };
        }
        if tp != self.tp.get() {
            self.tp.set(tp);
            // SAFETY: our own thread pointer, or the block of a G that we own. g0 holds no TLS reference.
            unsafe { tls::switch_to(tp) };
        }
    }

    /// Puts the thread pointer back to the thread's own: before anything on g0 that may touch TLS.
    #[inline]
    pub(crate) fn use_own_tls(&self) {
        // A shared-TLS goroutine may have been here: on g0 there is no current goroutine.
        // SAFETY: as in `use_tls_of`.
        unsafe { (*self.current_slot.get()).set(ptr::null()) };
        if self.tp.get() != self.own_tp.get() {
            self.tp.set(self.own_tp.get());
            // SAFETY: this thread's own thread pointer.
            unsafe { tls::switch_to(self.own_tp.get()) };
        }
    }

    /// A random number below `n` (xorshift; good enough for victims).
    pub(crate) fn random_below(&self, n: usize) -> usize {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        (((x >> 32) * n as u64) >> 32) as usize
    }
}

static MADE: AtomicPtr<M> = AtomicPtr::new(ptr::null_mut());
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Takes an M whose thread ended, or makes a new one. Called by the steward only; allocates.
pub(crate) fn make() -> &'static M {
    if let Some(m) = all().find(|m| !m.alive.load(Ordering::Acquire)) {
        m.alive.store(true, Ordering::Relaxed);
        return m;
    }
    let m: &'static M = Box::leak(Box::new(M::new(COUNT.fetch_add(1, Ordering::Relaxed))));
    m.alive.store(true, Ordering::Relaxed);
    // SAFETY: Ms are leaked.
    m.next_made.set(unsafe { MADE.load(Ordering::Relaxed).as_ref() });
    // Release: readers of the list see a complete M.
    MADE.store(ptr::from_ref(m).cast_mut(), Ordering::Release);
    m
}

/// Every M ever made.
pub(crate) fn all() -> impl Iterator<Item = &'static M> {
    // SAFETY: Ms are leaked; `next_made` is set before publication and never changes.
    let first: Option<&'static M> = unsafe { MADE.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |m| m.next_made.get())
}
