//! `park` stops the calling goroutine or thread, and `ready` ends its wait.
//!
//! The protocol, for goroutines and foreign threads alike:
//! 1. The waiter takes `Waiter::current()`, publishes it (in a queue, under that queue's lock), releases
//!    the lock, and calls `park`.
//! 2. The waker removes the waiter from the queue and calls `ready` **exactly once** for that
//!    publication. `ready` may come before `park`: then `park` returns at once. Because the waiter cannot
//!    return from `park` before that `ready`, what it published may live on its stack, as long as the waker
//!    touches it only before it calls `ready`.
//! 3. A wait that several parties may end (timeouts, select, contexts) puts a [`Wait`](super::wait::Wait)
//!    between them: only the first party to claim it calls `ready`.
//!
//! `word/park_word.rs` has the word in which the two sides meet.

use std::time::Instant;

use super::channel_op::Caller;
use crate::base::atomic::Ordering;
use crate::sched::event;
use crate::sched::idle::wake_sysmon;
use crate::sched::machine::{SCHED, hooks};
use crate::sched::run::runtime_section::{self, Outermost, Section};
use crate::sched::run::schedule;
use crate::sched::types::current::current;
use crate::sched::types::foreign_thread;
use crate::sched::types::g::{G, Switch};
use crate::sched::types::waiter::{Target, Waiter};
use crate::sched::word::status::WaitReason;

/// Blocks the caller until a waker calls `ready` on its [`Waiter`]. `object` is the address of what it
/// waits for (the channel, the lock), for the reports.
#[inline]
pub(crate) fn park(reason: WaitReason, object: usize) {
    match current() {
        Some(g) => park_goroutine(g, reason, object),
        // A future may be woken by I/O or by something that gort does not know: its wait is no deadlock.
        None if reason == WaitReason::Future => drop(park_thread_until(None)),
        None => foreign_thread::wait(|| {
            if wake_sysmon::is_asleep() {
                (hooks().all_idle)();
            }
        }),
    }
}

/// Stops the calling goroutine until it is readied.
#[inline]
pub(crate) fn park_goroutine(g: &'static G, reason: WaitReason, object: usize) {
    stop(runtime_section::enter_outermost(g), reason, object, false);
}

/// As [`park_goroutine`], in a section that is already open. `timed`: a timer may ready the goroutine.
#[inline]
pub(super) fn stop(section: Outermost, reason: WaitReason, object: usize, timed: bool) {
    let g = section.g();
    if g.park.take_notification() {
        return;
    }
    g.set_wait(reason, object, SCHED.platform.coarse_clock.load(Ordering::Relaxed), timed);
    section.switch(Switch::Park);
}

/// For a foreign thread: waits for its `ready`, but gives up at `deadline`. False: it gave up, and the caller
/// must make sure that no `ready` follows, or wait for it.
pub(crate) fn park_thread_until(deadline: Option<Instant>) -> bool {
    foreign_thread::own().note.wait_until(deadline)
}

/// Lets others run.
pub(crate) fn yield_now() {
    match current() {
        Some(g) => runtime_section::enter_outermost(g).yield_away(),
        None => std::thread::yield_now(),
    }
}

impl Waiter {
    /// Ends the wait. It must be called exactly once for each park. Never blocks and never allocates.
    #[inline]
    pub(crate) fn ready(self) {
        match self.goroutine() {
            Some(g) => {
                if g.park.notify() {
                    make_runnable(g);
                }
            }
            None => self.ready_other(),
        }
    }

    /// [`ready`](Waiter::ready) for everything but plain goroutines.
    fn ready_other(self) {
        match self.target() {
            Target::Goroutine(_) => self.ready(),
            Target::Thread(note) => note.set(),
            Target::Poller(word, poller) => {
                if word.notify() {
                    poller.ready();
                }
            }
            // SAFETY: the promise of `from_hook`.
            Target::Hook(hook) => unsafe { ((*hook).ready)(hook) },
        }
    }
}

/// Queues a goroutine that belongs to the caller, as its park word said.
#[inline]
pub(crate) fn make_runnable(g: &'static G) {
    let section = runtime_section::enter();
    if event::is_on() {
        schedule::log_unblocked(g, section.as_ref().map(Section::g));
    }
    if g.bubble.get() != 0 {
        return (hooks().bubble.ready)(g, section.as_ref().map(Section::p));
    }
    match section {
        Some(section) => SCHED.ready_on(section.p(), g),
        None => SCHED.ready_global(g),
    }
}

/// A goroutine that stays inside the runtime until it wakes another or stops.
impl Caller for Outermost {
    #[inline(always)]
    fn waiter(&self) -> Waiter {
        Waiter::of(self.g())
    }

    #[inline(always)]
    fn ready(self, other: Waiter) {
        match other.goroutine() {
            Some(g) if g.bubble.get() == 0 => {
                if g.park.notify() {
                    if event::is_on() {
                        schedule::log_unblocked(g, Some(self.g()));
                    }
                    SCHED.ready_on(self.p(), g);
                }
            }
            _ => {
                // This may run code that must not run inside the runtime.
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
