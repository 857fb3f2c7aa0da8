//! `Wait`: a wait that several parties may end. `WaitPlace`: what reports can see of a wait.

use std::ptr;
use std::time::Instant;

use super::park_ready::{park, park_goroutine, stop};
use super::{clock, timers};
use crate::base::atomic::{AtomicUsize, Ordering};
use crate::sched::run::runtime_section;
use crate::sched::types::current::current;
use crate::sched::types::foreign_thread;
use crate::sched::types::g::G;
use crate::sched::types::waiter::Waiter;
use crate::sched::word::status::WaitReason;
use crate::timer::{self, Fired, NEVER, Timer};

/// The claim value of a wait that nobody has ended yet.
pub(crate) const UNCLAIMED: usize = 0;
/// The claim value when the deadline ended the wait.
pub(crate) const TIMED_OUT: usize = 1;
/// The first claim value that users of [`Wait`] may give a meaning of their own.
pub(crate) const FIRST_FREE_CLAIM: usize = 2;

/// One wait that several parties may end: senders of different channels, a deadline, a cancelled context.
/// Lives on the waiter's stack. Other threads may touch it only while the waiter is certainly still there:
/// under the lock of a queue that the waiter takes again before it returns (to remove its entry), or between
/// a successful `try_claim` and the `ready` that follows it.
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

    /// The goroutine or thread that waits.
    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }

    /// Tries to end this wait, with a claim other than `UNCLAIMED`; only the first caller succeeds. A caller
    /// that gets `true` must call `self.waiter().ready()` (copy the waiter out first), unless it is the
    /// waiter itself.
    #[inline]
    #[must_use]
    pub(crate) fn try_claim(&self, claim: usize) -> bool {
        debug_assert_ne!(claim, UNCLAIMED);
        // AcqRel: the waiter sees the claimer's earlier writes, and the claimer sees the waiter's.
        self.claim.compare_exchange(UNCLAIMED, claim, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The current claim, without waiting.
    pub(crate) fn claim(&self) -> usize {
        self.claim.load(Ordering::Acquire)
    }

    /// Parks until a waker has claimed this wait and called `ready`, or until the deadline has claimed it
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

/// Starts `timer`, which fires at `when` and may ready the goroutine; parks; and stops the timer.
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

/// What a goroutine waits for; lies on its stack. Its address is the `object` of a [`park`] that the leak
/// search (`diag/leak/`) understands.
#[repr(C)]
pub(crate) struct WaitPlace {
    /// The address of the channel or the lock.
    pub(crate) object: usize,
    /// The address of the node in its queue. The wait reason determines its type.
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
        // SAFETY: the caller promises that it is still on that stack.
        unsafe { &*(address as *const WaitPlace) }
    }
}
