//! Stopping the calling goroutine.

use std::ptr;
use std::time::Instant;

use super::g::{G, Switch};
use super::reason::WaitReason;
use super::section::{self, Outermost};
use super::visit::Visit;
use super::waiter::{TIMED_OUT, Wait, Waiter};
use super::wake;
use crate::atomic::Ordering;
use crate::stack::trim;
use crate::time::clock;
use crate::timer::{self, Fire, NEVER, Timer};

/// Stops the calling goroutine until it is readied. See `parkword.rs` for the protocol.
#[inline]
pub(crate) fn park_goroutine(g: &'static G, reason: WaitReason, object: usize) {
    stop(section::enter_outermost(g), reason, object, false);
}

/// As [`park_goroutine`], in a section that was opened already; `timed` if a timer may ready it.
#[inline]
fn stop(section: Outermost, reason: WaitReason, object: usize, timed: bool) {
    let g = section.g();
    if g.park.take_notification() {
        return;
    }
    g.set_wait(reason, object, trim::PASS.load(Ordering::Relaxed), timed);
    section.switch(Switch::Park);
}

impl Visit for Outermost {
    #[inline(always)]
    fn waiter(&self) -> Waiter {
        Waiter::of(self.g())
    }

    #[inline(always)]
    fn ready(self, other: Waiter) {
        match other.goroutine() {
            Some(g) if g.bubble.get() == 0 => {
                if g.park.notify() {
                    wake::run_on(self.p(), g);
                }
            }
            _ => {
                // That may be code that must not run inside.
                drop(self);
                other.ready();
            }
        }
    }

    #[inline(always)]
    fn park(self, reason: WaitReason, object: usize) {
        stop(self, reason, object, false);
    }
}

/// As [`park_goroutine`], with a timer that may claim `wait` first.
pub(crate) fn park_goroutine_until(
    g: &'static G,
    reason: WaitReason,
    object: usize,
    deadline: Instant,
    wait: &Wait,
) {
    let when = clock::nanos_at(deadline);
    if when == NEVER {
        return park_goroutine(g, reason, object);
    }
    let timer = Timer::new(time_out, ptr::from_ref(wait).cast());
    // SAFETY: timer and wait live here until the call has returned.
    unsafe { park_with_timer(g, reason, object, &timer, when) };
}

/// As [`park_goroutine`], while `timer` runs, which fires at `when` and may ready the goroutine. Afterwards it is stopped.
///
/// # Safety
/// The timer's data stays valid until this returns.
pub(crate) unsafe fn park_with_timer(
    g: &'static G,
    reason: WaitReason,
    object: usize,
    timer: &Timer,
    when: u64,
) {
    let section = section::enter_as(g);
    // SAFETY: the timer stays in place until `stop` has returned.
    unsafe { timer::start(&section, timer, when) };
    drop(section);
    stop(section::enter_outermost(g), reason, object, true);
    let section = section::enter_as(g);
    timer::stop(timer);
    drop(section);
}

/// The callback of a deadline: ends the wait unless somebody else has claimed it.
unsafe fn time_out(wait: *const (), _now: u64) -> Fire {
    // SAFETY: the waiter stops its timer before it leaves, so the wait is still there.
    let wait = unsafe { &*wait.cast::<Wait>() };
    if wait.try_claim(TIMED_OUT) { wait.waiter().ready_from_timer() } else { Fire::Nothing }
}

/// Stops the calling goroutine until `when`, in nanoseconds of the monotonic clock.
pub(crate) fn sleep_goroutine(g: &'static G, when: u64) {
    if when == NEVER {
        return park_goroutine(g, WaitReason::Sleep, 0); // nobody will ready it
    }
    let section = section::enter_as(g);
    timer::start_sleep(&section, when);
    drop(section);
    park_goroutine(g, WaitReason::Sleep, 0);
}

/// Lets others run.
pub(crate) fn yield_now() {
    match section::current() {
        Some(g) => section::enter_outermost(g).yield_away(),
        None => std::thread::yield_now(),
    }
}
