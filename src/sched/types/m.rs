//! M: an OS thread that runs goroutines. The scheduler runs on the thread's own stack, g0.
//!
//! - M1. The `Cell`s belong to the M's thread, except while it is stopped: then the thread that took it off
//!   the idle list (or, for a locked M, readied its goroutine) sets `next_p` and `spinning` and sets the
//!   Note.
//! - M2. While it runs no goroutine, or one that is inside the runtime (G4), nobody takes its P away.
//! - M3. Ms are never freed; an M whose thread ended is reused by the next thread.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};

use super::g::{G, Switch};
use super::p::P;
use crate::base::lock::RawLock;
use crate::base::note::Note;
use crate::base::owner_cell::{OwnerBool, OwnerRef, OwnerUsize};
use crate::sched::account::cpu_time::ThreadTime;
use crate::sched::event::{self, Waker, Whereabouts, log::Log};
use crate::sched::word::unmarked_call::UnmarkedCall;
use crate::sys::sanitizer::Fiber;
use crate::sys::signal::ThreadSignals;

/// In the order in which it is written here: what a switch needs comes first and lies in one cache line.
#[repr(C, align(64))]
pub(crate) struct M {
    p: AtomicPtr<P>,
    current: AtomicPtr<G>,
    /// The thread's own thread pointer, and the one that is in the register now (`types/thread_pointer.rs`).
    pub(crate) own_tp: Cell<usize>,
    pub(crate) tp: Cell<usize>,
    /// g0's stack pointer while a goroutine runs, and why that goroutine switched back to g0.
    pub(crate) g0: Cell<usize>,
    pub(crate) why: Cell<Switch>,
    /// The number of its thread, which no other M and no later thread of this M has.
    pub(crate) number: Cell<u32>,
    /// The CPU time of its thread. Each switch looks at the first word.
    pub(crate) cpu_time: ThreadTime,
    /// The address of `CURRENT` in the thread's own TLS, for shared-TLS goroutines.
    pub(crate) current_slot: Cell<*const Cell<*const G>>,
    pub(crate) id: u32,
    pub(crate) tid: AtomicU32,
    pub(crate) random: Cell<u64>,
    /// The P that it left in `Syscall` when it entered a blocking call.
    pub(crate) syscall_p: Cell<Option<&'static P>>,
    /// Held by sysmon while it tries to take the P away.
    pub(crate) detaching: RawLock,
    /// sysmon's: the CPU time of its thread (ns) when it was first seen without a P, or 0.
    pub(crate) cpu_when_detached: Cell<u64>,
    /// The unmarked blocking call of its goroutine.
    pub(crate) call: UnmarkedCall,
    /// While a signal handler keeps its goroutine stopped: what the kernel passed to the handler.
    pub(crate) interrupted: AtomicPtr<c_void>,
    /// What the kernel keeps for the thread about signals; `None` while it is not known.
    pub(crate) signals: Cell<Option<ThreadSignals>>,
    /// A preemption signal was sent to the thread and has not arrived.
    pub(crate) signalled: AtomicBool,
    /// How many signals in a row found the goroutine where it must not be moved (`monitor/preempt.rs`).
    pub(crate) missed: AtomicU8,

    /// The CPU that its thread was on when it began to wait. The kernel likely wakes it there.
    pub(crate) cpu: OwnerUsize,
    pub(crate) spinning: OwnerBool,
    /// Set while it runs goroutines and no M polls in its place.
    pub(crate) lone: Cell<Option<Lone>>,
    pub(crate) note: Note,
    pub(crate) next_p: Cell<Option<&'static P>>,
    /// What the sanitizers know about g0.
    pub(crate) fiber: Fiber,
    /// The next M in the idle list.
    pub(crate) link: Cell<Option<&'static M>>,
    /// In the idle list; guarded by the scheduler lock.
    pub(crate) idle: Cell<bool>,
    /// The goroutine bound to this M by lock_os_thread.
    pub(crate) locked_g: OwnerRef<G>,
    /// Its thread is running.
    pub(crate) alive: AtomicBool,
    /// What it does, while the tracer is on.
    pub(crate) log: Log,
    /// The M that was made before this one.
    pub(crate) older: Cell<Option<&'static M>>,
}

/// What a debugger shows of an M (`diag/gdb/`): offsets of fields.
pub(crate) const FOR_DEBUGGERS: [(&str, *const ()); 4] = [
    ("m.id", ptr::without_provenance(offset_of!(M, id))),
    ("m.current", ptr::without_provenance(offset_of!(M, current))),
    ("m.tid", ptr::without_provenance(offset_of!(M, tid))),
    ("m.g0", ptr::without_provenance(offset_of!(M, g0))),
];

/// What an M remembers while it runs goroutines and no M was woken to poll in its place.
#[derive(Clone, Copy)]
pub(crate) struct Lone {
    /// Since when (ns).
    pub(crate) since: u64,
    /// When the last goroutine stopped and left the M to g0 (ns); at first, the same.
    pub(crate) stopped: u64,
    /// How many goroutines were ready then.
    pub(crate) batch: u32,
    /// sysmon is asleep, and its timer is set.
    pub(crate) timer: bool,
}

/// A tag in `M::p`: sysmon is about to take the P away.
const LEAVING: usize = 1;

// SAFETY: see M1.
unsafe impl Sync for M {}

impl M {
    pub(crate) fn new(id: u32) -> M {
        M {
            id,
            p: AtomicPtr::new(ptr::null_mut()),
            current: AtomicPtr::new(ptr::null_mut()),
            cpu_time: ThreadTime::new(),
            own_tp: Cell::new(0),
            tp: Cell::new(0),
            tid: AtomicU32::new(0),
            number: Cell::new(0),
            current_slot: Cell::new(ptr::null()),
            random: Cell::new(0x9E37_79B9_7F4A_7C15 ^ u64::from(id + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93)),
            g0: Cell::new(0),
            why: Cell::new(Switch::Park),
            syscall_p: Cell::new(None),
            detaching: RawLock::new(),
            cpu_when_detached: Cell::new(0),
            call: UnmarkedCall::new(),
            interrupted: AtomicPtr::new(ptr::null_mut()),
            signals: Cell::new(None),
            signalled: AtomicBool::new(false),
            missed: AtomicU8::new(0),
            cpu: OwnerUsize::new(0),
            spinning: OwnerBool::new(false),
            lone: Cell::new(None),
            note: Note::new(),
            next_p: Cell::new(None),
            fiber: Fiber::new(),
            link: Cell::new(None),
            idle: Cell::new(false),
            locked_g: OwnerRef::new(),
            alive: AtomicBool::new(false),
            log: Log::new(id),
            older: Cell::new(None),
        }
    }

    /// For observers (`event::is_on`): the wait of `g` has ended. The caller runs on this M, inside the
    /// runtime, and `g` belongs to it.
    #[cold]
    pub(crate) fn unblocked(&self, g: &G) {
        let now = self.log.unblocked(g.id());
        self.add_wait_of(g, Waker::Runtime);
        g.became_runnable(now);
    }

    /// As [`unblocked`](M::unblocked), by the running goroutine, which is at `place`.
    #[cold]
    pub(crate) fn unblocked_by(&self, g: &G, place: &Whereabouts) {
        let now = self.log.unblocked_by(g.id(), place);
        self.add_wait_of(g, Waker::Goroutine(place));
        g.became_runnable(now);
    }

    fn add_wait_of(&self, g: &G, waker: Waker<'_>) {
        if let Some(p) = self.p() {
            p.wait_times.add_wait_of(g, waker);
        }
    }

    /// Its P, if it has one.
    #[inline]
    pub(crate) fn p(&self) -> Option<&'static P> {
        // SAFETY: Ps are never freed.
        unsafe { self.p.load(Ordering::Relaxed).map_addr(|address| address & !LEAVING).as_ref() }
    }

    /// Whether it has a P that sysmon is not about to take away: the first check of a runtime section
    /// (`block/unmarked.rs`).
    #[inline]
    pub(crate) fn has_p(&self) -> bool {
        let p = self.p.load(Ordering::Relaxed);
        !p.is_null() && p.addr() & LEAVING == 0
    }

    /// Gives the M a P, or takes its P away. Called on its own thread.
    #[inline]
    pub(crate) fn set_p(&'static self, p: Option<&'static P>) {
        if event::is_on() {
            match (p, self.p()) {
                (Some(new), _) => self.log.proc_started(new.id),
                (None, Some(old)) => self.log.proc_stopped(old.id),
                (None, None) => {}
            }
        }
        self.replace_p(p);
    }

    /// Leaves its P behind in a blocking call of its goroutine.
    #[inline]
    pub(crate) fn leave_p(&'static self) {
        self.replace_p(None);
    }

    #[inline]
    fn replace_p(&'static self, p: Option<&'static P>) {
        if let Some(p) = p {
            p.m.store(ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
        }
        self.p.store(p.map_or(ptr::null_mut(), |p| ptr::from_ref(p).cast_mut()), Ordering::Relaxed);
    }

    /// For a goroutine without a P: takes the P that it left behind in a blocking call, if that is still
    /// free, or the one that sysmon tried to take and gave back.
    pub(crate) fn take_p_back(&'static self) -> bool {
        if let Some(p) = self.syscall_p.take()
            && p.take_from_syscall()
        {
            if event::is_on()
                && let Some(g) = self.current()
            {
                // Since this M left the P, another one may have had it, and left it behind as well.
                match p.m().filter(|last| !ptr::eq(*last, self)) {
                    None => self.log.call_ended(g.id()),
                    Some(last) => {
                        event::stolen(last.id, p.id);
                        self.log.call_ended_with_new_p(g.id(), p.id);
                    }
                }
            }
            self.replace_p(Some(p));
            return true;
        }
        self.wait_for_detach();
        self.p().is_some()
    }

    /// If sysmon is about to take the P, waits until sysmon has decided (`block/unmarked.rs`). Then the P is
    /// ours again, or gone.
    pub(crate) fn wait_for_detach(&self) {
        self.detaching.lock();
        self.detaching.unlock();
    }

    /// Whether its thread is `tid` and still runs.
    pub(crate) fn is_thread(&self, tid: u32) -> bool {
        self.tid() == tid && self.alive.load(Ordering::Relaxed)
    }

    /// For sysmon: begins to take `p` away, if the M has it.
    pub(crate) fn begin_detach(&self, p: &'static P) -> bool {
        let p = ptr::from_ref(p).cast_mut();
        let leaving = p.map_addr(|address| address | LEAVING);
        self.p.compare_exchange(p, leaving, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// For sysmon: takes the P away after all, or leaves it. False: the M keeps its P, or its own thread has
    /// disposed of the P meanwhile.
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

    /// The goroutine that runs on it, if that one runs user code (G4).
    #[inline]
    pub(crate) fn in_user_code(&self) -> Option<&'static G> {
        self.current().filter(|g| g.in_runtime.get() == 0)
    }

    #[inline]
    pub(crate) fn set_current(&self, g: Option<&'static G>) {
        self.current.store(g.map_or(ptr::null_mut(), |g| ptr::from_ref(g).cast_mut()), Ordering::Relaxed);
    }

    /// Charges `g`, which runs on this M and is about to stop, with the CPU time that is pending. Called on
    /// the M's thread, inside the runtime.
    #[cold]
    #[inline(never)]
    pub(crate) fn charge(&self, g: &'static G) {
        // SAFETY: it has not ended, because it runs.
        self.cpu_time.charge(unsafe { g.info() }.map(|info| &info.account));
    }

    /// The kernel's id of its thread.
    #[inline]
    pub(crate) fn tid(&self) -> u32 {
        self.tid.load(Ordering::Relaxed)
    }

    /// A random number below `n` (xorshift: good enough to choose whom to steal from).
    pub(crate) fn random_below(&self, n: usize) -> usize {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        (((x >> 32) * n as u64) >> 32) as usize
    }
}
