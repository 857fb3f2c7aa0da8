//! How other threads wake sysmon (`monitor/sysmon/`), at once or a little later.
//!
//! sysmon sleeps while all Ps are idle. On a server with little to do, a P becomes busy for each request, for
//! a few microseconds. To wake sysmon each time would cost as much as the request. So an M that runs one or a
//! few goroutines while all other Ps are idle, the *lone* M, lets sysmon sleep on and only sets its timer,
//! which goes off if they take long.
//!
//! ```text
//!           every P is idle               the poller runs one goroutine
//!  LOOKING ─────────────────▶ ASLEEP ◀──────────────────────────────────▶ WATCHING
//!   ▲ ▲  │                      │              it is done: back            │
//!   │ │  └ pause ─▶ LONG_PAUSE  └─── a P becomes busy otherwise ───────────┤
//!   │ └──────────────┘   all Ps are busy, or the timer goes off            │
//!   └──────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! - Y1. Only sysmon leaves LOOKING. Only the lone M changes between ASLEEP and WATCHING, and there is only
//!   one: it takes a P while all are idle, and any other thread that takes one wakes sysmon.
//! - Y2. A thread that changes ASLEEP or WATCHING to LOOKING then sets the timer to go off at once. The lone
//!   M sets the timer first and reads the state after; if that is LOOKING, it sets the timer to go off at
//!   once, too. So the lone M's setting cannot hide that sysmon was woken.
//! - Y3. sysmon stores ASLEEP first and then looks whether all Ps are idle; a thread that takes a P counts it
//!   as busy first and then reads the state (all SeqCst). So one of them sees the other.
//!
//! When the lone M is done it sets the timer to [`AFTERWARDS`]: sysmon then looks once more, for what no
//! longer changes (deadlocks, memory to be given back), and sleeps without a timer.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::start_m::wake_housekeeper;
use crate::sched::machine::{SCHED, Sysmon};
use crate::sched::types::m::{Lone, M};
use crate::sys::clock::nanotime;
use crate::sys::timerfd;

/// sysmon looks, or is in a short pause.
pub(crate) const LOOKING: u32 = 0;
/// sysmon is in a pause that is longer than it would be if goroutines waited for a P.
pub(crate) const LONG_PAUSE: u32 = 1;
/// sysmon sleeps, because every P is idle.
pub(crate) const ASLEEP: u32 = 2;
/// sysmon sleeps, and its timer is set: one M runs goroutines. The M's id is in the higher bits.
const WATCHING: u32 = 3;
/// The bits of a state without the id.
const KIND: u32 = 0xff;

/// sysmon's timer while it watches a lone M (ns). The kernel's tick is due earlier, at 250 Hz: so to set the
/// timer does not mean to program the hardware's, which costs 10 µs in a virtual machine.
pub(crate) const WATCH: u64 = 4_000_000;

/// A lone M whose goroutines take longer than this (ns) should not have been trusted: meanwhile nobody polls,
/// looks at timers or notices that a call blocks.
const BRIEF: u64 = 200_000;

/// After such a case no M is trusted for this long (ns), and sysmon is woken each time.
const DISTRUST: u64 = 1_000_000_000;

/// sysmon looks once more this long (ns) after the last goroutine ran.
const AFTERWARDS: u64 = 1_000_000_000;

/// At least this often (ns) sysmon is woken although it need not be: its looks let the housekeeper give
/// memory back.
const LOOK_AT_LEAST: u64 = 1_000_000_000;

impl Sysmon {
    /// Makes sysmon look now. The state is LOOKING already, and was `before`.
    fn wake_from(&self, before: u32) {
        match before & KIND {
            LONG_PAUSE => self.wake.set(),
            ASLEEP | WATCHING => self.end_sleep(),
            _ => {}
        }
    }

    fn end_sleep(&self) {
        let timer = self.timer.load(Acquire);
        if timer < 0 || !timerfd::set(timer, 1) {
            self.timer.store(-1, Release);
            self.wake.set();
            if timer >= 0 {
                // The program has closed it, as a `close_range` over everything does, and sysmon may wait for
                // it: a signal must end that. From now on sysmon sleeps on the Note.
                self.deaf.store(true, Release);
                wake_housekeeper();
            }
        }
    }

    /// Before sysmon stores ASLEEP: no timer is set.
    pub(crate) fn forget_timer(&self) {
        let timer = self.timer.load(Acquire);
        if timer >= 0 && !timerfd::clear(timer) {
            self.timer.store(-1, Release);
        }
    }

    /// Blocks sysmon until another thread wakes it or its timer goes off.
    pub(crate) fn sleep(&self) {
        match self.timer.load(Acquire) {
            -1 => self.wake.wait(),
            timer => timerfd::wait(timer),
        }
    }
}

/// Called when a P is no longer idle: sysmon has something to watch again.
#[inline]
pub(crate) fn wake_if_asleep() {
    let own = &SCHED.platform.sysmon;
    if own.state.load(SeqCst) & KIND >= ASLEEP {
        // No thread has updated the coarse clock while all Ps were idle.
        SCHED.platform.coarse_clock.store(nanotime(), Relaxed);
        own.wake_from(own.state.swap(LOOKING, SeqCst));
    }
}

/// Called when a goroutine has to wait because all Ps are busy. One of them may be blocked, so this cuts a
/// long pause of sysmon short.
#[inline]
pub(crate) fn look_soon() {
    // SeqCst, so that this load comes after the put, which is SeqCst too.
    if SCHED.platform.sysmon.state.load(SeqCst) != LOOKING {
        look_now();
    }
}

#[cold]
fn look_now() {
    let own = &SCHED.platform.sysmon;
    own.wake_from(own.state.swap(LOOKING, SeqCst));
}

/// For the goroutine of a lone M that enters a marked blocking call: until sysmon takes the P that it leaves,
/// no M polls.
#[inline]
pub(crate) fn look_if_watching() {
    if SCHED.platform.sysmon.state.load(Relaxed) & KIND == WATCHING {
        look_now();
    }
}

/// The state in which sysmon sleeps while that M runs goroutines.
fn watched_by(m: &M) -> u32 {
    WATCHING | (m.id << KIND.count_ones())
}

/// Called instead of [`wake_if_asleep`] by an M that took a P to run `batch` goroutines. True: sysmon will
/// look if that takes long, so no other M need be woken to poll. False: sysmon is awake, but an M should
/// poll.
#[must_use]
pub(crate) fn wake_later(m: &'static M, batch: usize, now: u64) -> bool {
    let own = &SCHED.platform.sysmon;
    let timer = own.timer.load(Acquire);
    let overdue = now.saturating_sub(own.looked_at.load(Relaxed)) >= LOOK_AT_LEAST;
    if overdue || now < own.distrust_until.load(Relaxed) {
        wake_if_asleep();
        return false;
    }
    let watched = watched_by(m);
    let asleep = timer >= 0 && own.state.compare_exchange(ASLEEP, watched, SeqCst, SeqCst).is_ok();
    m.lone.set(Some(Lone { since: now, stopped: now, batch: batch as u32, timer: asleep }));
    if asleep {
        SCHED.platform.coarse_clock.store(now, Relaxed);
        let set = timerfd::set(timer, WATCH);
        if !set || own.state.load(SeqCst) != watched {
            own.end_sleep(); // Y2
        }
    } else {
        wake_if_asleep();
    }
    true
}

/// Called by an M that is about to poll, and has given up its P: undoes [`wake_later`]. Returns how long each
/// of the goroutines took, on average.
#[inline]
pub(crate) fn need_not_wake(m: &'static M) -> Option<u64> {
    let lone = m.lone.take()?;
    let own = &SCHED.platform.sysmon;
    // Otherwise sysmon has been woken since, and another M may be the lone one now.
    if lone.timer && own.state.load(SeqCst) == watched_by(m) {
        let set = timerfd::set(own.timer.load(Relaxed), AFTERWARDS);
        if own.state.compare_exchange(watched_by(m), ASLEEP, SeqCst, SeqCst).is_err() || !set {
            own.end_sleep(); // Y2
        }
    }
    let now = nanotime();
    if now - lone.since >= BRIEF {
        own.distrust_until.store(now + DISTRUST, Relaxed);
    }
    Some((now - lone.since) / u64::from(lone.batch))
}

/// For reports: sysmon sleeps, because every P is idle.
pub(crate) fn is_asleep() -> bool {
    // Acquire: a thread that sees it set sees that the runtime has started.
    SCHED.platform.sysmon.state.load(Acquire) == ASLEEP
}
