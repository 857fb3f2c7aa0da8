//! A wait that several parties may end, and what reports can see of a wait.

use std::ptr;
use std::time::Instant;

use super::park_ready::{park, park_goroutine, stop};
use super::{clock, timers};
use crate::base::atomic::{AtomicUsize, Ordering};
use crate::sched::run::runtime_section;
use crate::sched::types::current::current;
use crate::sched::types::foreign_thread;
use crate::sched::types::g::G;
use crate::sched::types::wait_reason::WaitReason;
use crate::sched::types::waiter::Waiter;
use crate::timer::{self, Fired, NEVER, Timer};

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
        Wait::of(Waiter::current())
    }

    /// A new wait of `waiter`.
    pub(crate) fn of(waiter: Waiter) -> Wait {
        Wait { claim: AtomicUsize::new(UNCLAIMED), waiter }
    }

    /// Who waits.
    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }

    /// Tries to be the one that ends this wait, with a claim other than `UNCLAIMED`. A caller that gets
    /// `true` must call `self.waiter().ready()` (copy the waiter out first), unless it is the waiter itself.
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

    /// Parks until a waker claimed this wait and called ready, or the deadline has passed and claimed it
    /// with `TIMED_OUT`. Returns the claim.
    pub(crate) fn park_until(&self, reason: WaitReason, object: usize, deadline: Option<Instant>) -> usize {
        match (deadline, current()) {
            (None, _) => park(reason, object),
            (Some(deadline), Some(g)) => self.park_goroutine_until(g, reason, object, deadline),
            (Some(deadline), None) => {
                let note = &foreign_thread::own().note;
                if !note.wait_until(Some(deadline)) && !self.try_claim(TIMED_OUT) {
                    // A waker claimed the wait and is about to call ready.
                    note.wait();
                }
            }
        }
        self.claim()
    }

    fn park_goroutine_until(&self, g: &'static G, reason: WaitReason, object: usize, deadline: Instant) {
        let when = clock::nanos_at(deadline);
        if when == NEVER {
            return park_goroutine(g, reason, object);
        }
        let timer = Timer::new(time_out, ptr::from_ref(self).cast());
        // SAFETY: timer and wait live here until the call has returned.
        unsafe { park_with_timer(g, reason, object, &timer, when) };
    }
}

/// The callback of a deadline: ends the wait unless a waker has claimed it.
unsafe fn time_out(wait: *const (), _now: u64) -> Fired {
    // SAFETY: the waiter stops its timer before it leaves, so the wait is still there.
    let wait = unsafe { &*wait.cast::<Wait>() };
    wait.try_claim(TIMED_OUT).then(|| wait.waiter().to_word())
}

/// Parks while `timer` runs, which fires at `when` and may ready the goroutine. Afterwards it is stopped.
///
/// # Safety
/// The timer's data stays valid until this returns.
pub(super) unsafe fn park_with_timer(
    g: &'static G,
    reason: WaitReason,
    object: usize,
    timer: &Timer,
    when: u64,
) {
    let section = runtime_section::enter_as(g);
    // SAFETY: the timer stays in place until `stop` has returned.
    unsafe { timers::start(&section, timer, when) };
    drop(section);
    stop(runtime_section::enter_outermost(g), reason, object, true);
    let section = runtime_section::enter_as(g);
    timer::stop(timer);
    drop(section);
}

/// What a goroutine waits for, on its stack: the object of a [`park`] that the search for leaks understands.
#[repr(C)]
pub(crate) struct WaitPlace {
    /// The address of the channel or the lock.
    pub(crate) object: usize,
    /// The address of the node in its queue; of what type depends on the reason.
    pub(crate) node: usize,
}

impl WaitPlace {
    /// As the object of a [`park`].
    pub(crate) fn address(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// # Safety
    /// A goroutine is parked with that object, and is not readied meanwhile.
    pub(crate) unsafe fn at<'a>(address: usize) -> &'a WaitPlace {
        // SAFETY: the caller's promise: it is still on that stack.
        unsafe { &*(address as *const WaitPlace) }
    }
}
