//! One way to wait. Everything that blocks, be it a channel, a lock, a join or a sleep, goes through
//! [`park`] and a [`Waiter`]; they differ only in their queues.
//!
//! The protocol, for goroutines and foreign threads alike:
//! 1. The waiter takes `Waiter::current()`, publishes it (in a queue, under that queue's lock), releases
//!    the lock, and calls `park`.
//! 2. Whoever ends the wait removes the waiter from the queue and calls `ready` **exactly once** for that
//!    publication. `ready` may come before `park`: then `park` returns at once. Because the waiter cannot
//!    return from `park` before that `ready`, what it published may live on its stack, as long as the waker
//!    touches it only before it calls `ready`.
//! 3. A wait that several parties may end (timeouts, select, contexts) puts a [`Wait`] between them: the
//!    first to claim it, and nobody else, calls `ready`.

use std::sync::Arc;
use std::time::Instant;

use super::foreign::Foreign;
use super::futureword::FutureWord;
use super::g::G;
use super::note::Note;
use super::reason::WaitReason;
use super::{bubble, foreign, park, prefetch, section, wake};
use crate::atomic::{AtomicUsize, Ordering};
use crate::timer::Fire;
use crate::timer::{Deferred, deferred};

/// Who waits or is about to: a pointer with tags.
///
/// | tags   | pointer                                                                                     |
/// |--------|---------------------------------------------------------------------------------------------|
/// | none   | G: a parked goroutine                                                                       |
/// | NOTE   | the record of a foreign thread                                                              |
/// | FUTURE | (with or without NOTE) as above, but it polls futures: see `futureword.rs`                  |
/// | CODE   | a `Deferred`, with a strong count: its code is run, which wakes somebody gort does not know |
/// | HOOK   | a [`Hook`], whose functions are called                                                       |
///
/// Bit 1 stays free, for the words of the poller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter(usize);

const NOTE: usize = 1;
const FUTURE: usize = 4;
const CODE: usize = 8;
const HOOK: usize = 16;
const TAGS: usize = NOTE | FUTURE | CODE | HOOK;

const _: () = assert!(
    align_of::<G>() > TAGS
        && align_of::<Foreign>() > TAGS
        && align_of::<Deferred>() > TAGS
        && align_of::<Hook>() > TAGS
);

/// The beginning of something that does more than to run when it is readied. The alignment is that of the tags.
#[repr(C, align(32))]
pub(crate) struct Hook {
    /// [`Waiter::ready`]. Gets the Hook's address.
    pub(crate) ready: unsafe fn(*const Hook),
    /// [`Waiter::ready_from_timer`].
    pub(crate) fire: unsafe fn(*const Hook) -> Fire,
}

impl Waiter {
    /// The caller itself. Stays valid for the whole life of the goroutine or thread.
    #[inline]
    pub(crate) fn current() -> Waiter {
        match section::current() {
            Some(g) => Waiter::of(g),
            None => Waiter(std::ptr::from_ref(foreign::own()) as usize | NOTE),
        }
    }

    /// A goroutine.
    pub(crate) fn of(g: &'static G) -> Waiter {
        Waiter(std::ptr::from_ref(g) as usize)
    }

    /// Who is told to poll again: `ready` may then be called any number of times, by anybody, at any time.
    pub(crate) fn as_poller(self) -> Waiter {
        Waiter(self.0 | FUTURE)
    }

    /// Code that is run when the wait ends. Owns a strong count until then: take it back with
    /// [`into_code`](Waiter::into_code) if it will not.
    pub(crate) fn from_code(code: Arc<Deferred>) -> Waiter {
        Waiter(Arc::into_raw(code) as usize | CODE)
    }

    /// Calls the functions of a Hook.
    ///
    /// # Safety
    /// The Hook is there until then.
    pub(crate) unsafe fn from_hook(hook: *const Hook) -> Waiter {
        Waiter(hook as usize | HOOK)
    }

    /// Takes the code back.
    ///
    /// # Safety
    /// Nobody will call `ready` on this waiter, nor call this again.
    pub(crate) unsafe fn into_code(self) -> Option<Arc<Deferred>> {
        // SAFETY: made by `from_code`, whose count becomes the caller's.
        (self.0 & CODE != 0).then(|| unsafe { Arc::from_raw((self.0 & !TAGS) as *const Deferred) })
    }

    /// It will be readied soon.
    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch::head(self.0 & !TAGS);
    }

    /// Ends the wait. Exactly one call for each park. Never blocks, allocates nothing.
    #[inline]
    pub(crate) fn ready(self) {
        if self.0 & TAGS == 0 {
            let g = self.g();
            if g.park.notify() {
                wake::make_runnable(g);
            }
        } else {
            self.ready_other();
        }
    }

    /// Not a plain goroutine.
    fn ready_other(self) {
        if self.0 & HOOK != 0 {
            let hook = self.pointer().cast::<Hook>();
            // SAFETY: the promise of `from_hook`.
            unsafe { ((*hook).ready)(hook) }
        } else if self.0 & CODE != 0 {
            // SAFETY: the count of `from_code` goes to the queue.
            if let Some(service) = unsafe { deferred::fire_now(self.pointer().cast()) } {
                service.ready();
            }
        } else if self.0 & FUTURE == 0 {
            self.note().set();
        } else if self.future().notify() {
            Waiter(self.0 & !FUTURE).ready();
        }
    }

    fn pointer(self) -> *const () {
        (self.0 & !TAGS) as *const ()
    }

    /// The goroutine that is readied by making it runnable, if it is one.
    #[inline]
    pub(crate) fn goroutine(self) -> Option<&'static G> {
        (self.0 & TAGS == 0).then(|| self.g())
    }

    /// Without NOTE, CODE and HOOK.
    #[inline]
    fn g(self) -> &'static G {
        // SAFETY: such a Waiter was made from a G, and Gs are never unmapped.
        unsafe { &*self.pointer().cast::<G>() }
    }

    /// With NOTE.
    fn note(self) -> &'static Note {
        // SAFETY: such a Waiter was made from the record of a foreign thread; those are never freed.
        unsafe { &(*self.pointer().cast::<Foreign>()).note }
    }

    /// Where the futures of a goroutine or thread meet it. Without CODE and HOOK.
    pub(crate) fn future(self) -> &'static FutureWord {
        if self.0 & NOTE == 0 {
            return &self.g().future;
        }
        // SAFETY: as in `note`.
        unsafe { &(*self.pointer().cast::<Foreign>()).future }
    }

    /// As [`ready`](Waiter::ready), for code inside the runtime that may have no P: g0, or a signal handler, which runs on
    /// the stopped goroutine's thread-locals but must not act as that goroutine.
    pub(crate) fn ready_without_p(self) {
        if self.0 & TAGS != 0 {
            debug_assert_eq!(self.0 & TAGS, NOTE, "futures wait for nothing inside the runtime");
            return self.note().set();
        }
        let g = self.g();
        if g.park.notify() {
            wake::make_runnable_globally(g);
        }
    }

    /// As [`ready`](Waiter::ready), for a timer that fires: the goroutine is handed to who runs the timers.
    pub(crate) fn ready_from_timer(self) -> Fire {
        if self.0 & HOOK != 0 {
            let hook = self.pointer().cast::<Hook>();
            // SAFETY: the promise of `from_hook`.
            return unsafe { ((*hook).fire)(hook) };
        }
        if self.0 & CODE != 0 {
            // SAFETY: the count of `from_code` goes to the queue.
            return unsafe { deferred::fire(self.pointer(), 0) };
        }
        if self.0 & FUTURE != 0 {
            if !self.future().notify() {
                return Fire::Nothing;
            }
            return Waiter(self.0 & !FUTURE).ready_from_timer();
        }
        if self.0 & NOTE == 0 {
            let g = self.g();
            if !g.park.notify() {
                return Fire::Nothing;
            }
            if g.bubble.get() == 0 {
                return Fire::Ready(g);
            }
            bubble::ready(g);
            return Fire::Nothing;
        }
        self.note().set();
        Fire::Nothing
    }

    /// As a number, for packed words: never 0 or 1, even for a goroutine.
    pub(crate) fn to_word(self) -> usize {
        self.0
    }

    /// The Waiter of a number that `to_word` returned.
    pub(crate) fn from_word(word: usize) -> Waiter {
        Waiter(word)
    }
}

/// Blocks the caller until somebody calls `ready` on its [`Waiter`]. `object` is the address of what it
/// waits for (the channel, the lock), for the reports.
#[inline]
pub(crate) fn park(reason: WaitReason, object: usize) {
    match section::current() {
        Some(g) => park::park_goroutine(g, reason, object),
        // Something that gort does not know, or I/O, may end the wait of a future: that is no deadlock.
        None if reason == WaitReason::Future => drop(park_thread_until(None)),
        None => foreign::wait(),
    }
}

/// As [`park`], but wakes up by itself at `deadline`. The caller must resolve the race between the two (see
/// [`Wait::park_until`], the only user).
fn park_until(reason: WaitReason, object: usize, deadline: Instant, wait: &Wait) {
    match section::current() {
        Some(g) => park::park_goroutine_until(g, reason, object, deadline, wait),
        None => {
            if foreign::own().note.wait_until(Some(deadline)) || wait.try_claim(TIMED_OUT) {
                return;
            }
            // Somebody claimed the wait and is about to call ready.
            foreign::own().note.wait();
        }
    }
}

/// For a foreign thread: waits for its `ready`, but gives up at `deadline`. False: it gave up, and the caller must see
/// to it that no `ready` comes any more, or wait for it.
pub(crate) fn park_thread_until(deadline: Option<Instant>) -> bool {
    foreign::own().note.wait_until(deadline)
}

/// What a goroutine waits for, on its stack: the object of a [`park`] that the search for leaks understands.
#[repr(C)]
pub(crate) struct Place {
    /// The address of the channel or the lock.
    pub(crate) object: usize,
    /// The address of the node in its queue; of what type depends on the reason.
    pub(crate) node: usize,
}

impl Place {
    /// As the object of a [`park`].
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// # Safety
    /// A goroutine is parked with that object, and is not readied meanwhile.
    pub(crate) unsafe fn at<'a>(address: usize) -> &'a Place {
        // SAFETY: the caller's promise: it is still on that stack.
        unsafe { &*(address as *const Place) }
    }
}

/// The claim of a wait that nobody has ended yet.
pub(crate) const UNCLAIMED: usize = 0;
/// The claim of a deadline.
pub(crate) const TIMED_OUT: usize = 1;
/// Other claims are chosen by the users of [`Wait`], from this on.
pub(crate) const FIRST_FREE_CLAIM: usize = 2;

/// One wait that several parties may end: senders of different channels, a deadline, a cancelled context.
/// Lives on the waiter's stack. Others may touch it only while they can be sure that the waiter is still
/// there: under the lock of a queue that the waiter takes again before it returns (to remove its entry), or
/// between a successful `try_claim` and the `ready` that follows it.
pub(crate) struct Wait {
    claim: AtomicUsize,
    waiter: Waiter,
}

impl Wait {
    /// A new wait of the caller.
    pub(crate) fn new() -> Wait {
        Wait { claim: AtomicUsize::new(UNCLAIMED), waiter: Waiter::current() }
    }

    /// A new wait of somebody else.
    pub(crate) fn of(waiter: Waiter) -> Wait {
        Wait { claim: AtomicUsize::new(UNCLAIMED), waiter }
    }

    /// Who waits.
    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }

    /// Tries to be the one that ends this wait, with a claim other than `UNCLAIMED`. Whoever gets `true` must
    /// call `self.waiter().ready()` (copy the waiter out first), unless it is the waiter itself.
    #[inline]
    #[must_use]
    pub(crate) fn try_claim(&self, claim: usize) -> bool {
        debug_assert_ne!(claim, UNCLAIMED);
        // AcqRel: the claimer's writes before are seen by the waiter, and the reverse.
        self.claim.compare_exchange(UNCLAIMED, claim, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The current claim, without waiting.
    pub(crate) fn claim(&self) -> usize {
        self.claim.load(Ordering::Acquire)
    }

    /// Parks until somebody claimed this wait and called ready, or the deadline has passed and claimed it
    /// with `TIMED_OUT`. Returns the claim.
    pub(crate) fn park_until(&self, reason: WaitReason, object: usize, deadline: Option<Instant>) -> usize {
        match deadline {
            None => park(reason, object),
            Some(deadline) => park_until(reason, object, deadline, self),
        }
        self.claim()
    }
}
