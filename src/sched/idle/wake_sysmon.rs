//! How other threads wake sysmon (`monitor/sysmon/`), at once or a little later.
//!
//! sysmon sleeps while all Ps are idle. On a server with little to do, a P becomes busy for each request, for
//! a few microseconds. To wake sysmon each time would cost as much as the request. So an M that runs a single
//! goroutine while all other Ps are idle, the *lone* M, lets sysmon sleep on and only sets its timer, which
//! goes off if the goroutine takes long.
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

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use crate::sched::machine::{SCHED, Sysmon};
use crate::sched::types::m::M;
use crate::sys::clock::nanotime;
use crate::sys::timerfd;

/// sysmon looks, or is in a short pause.
pub(crate) const LOOKING: u8 = 0;
/// sysmon is in a pause that is longer than it would be if goroutines waited for a P.
pub(crate) const LONG_PAUSE: u8 = 1;
/// sysmon sleeps, because every P is idle.
pub(crate) const ASLEEP: u8 = 2;
/// sysmon sleeps, and its timer is set: one M runs one goroutine.
pub(crate) const WATCHING: u8 = 3;

/// A lone M's goroutine may run for this long (ns) before sysmon looks: if it blocks, or if other I/O arrives
/// meanwhile, another M has to be woken.
const WATCH: u64 = 250_000;

/// If a timer is overdue by this much (ns), sysmon fires it: its P's goroutine runs too long.
pub(crate) const TIMER_OVERDUE: u64 = 50_000;

/// sysmon looks once more this long (ns) after the last goroutine ran.
const AFTERWARDS: u64 = 1_000_000_000;

/// At least this often (ns) sysmon is woken although it need not be: its looks let the housekeeper give
/// memory back.
const LOOK_AT_LEAST: u64 = 1_000_000_000;

impl Sysmon {
    /// Makes sysmon look now. The state is LOOKING already, and was `before`.
    fn wake_from(&self, before: u8) {
        match before {
            LONG_PAUSE => self.wake.set(),
            ASLEEP | WATCHING => self.end_sleep(),
            _ => {}
        }
    }

    fn end_sleep(&self) {
        match self.timer.load(Acquire) {
            -1 => self.wake.set(),
            timer => timerfd::set(timer, 1),
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
    if own.state.load(SeqCst) >= ASLEEP {
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
    if SCHED.platform.sysmon.state.load(Relaxed) == WATCHING {
        look_now();
    }
}

/// Called instead of [`wake_if_asleep`] by an M that took a P to run `batch` goroutines: sysmon wakes up only
/// if that takes long, or if the timer of a goroutine is due, at `next_timer`. False: sysmon is awake.
#[must_use]
pub(crate) fn wake_later(m: &'static M, batch: usize, now: u64, next_timer: u64) -> bool {
    let own = &SCHED.platform.sysmon;
    let timer = own.timer.load(Acquire);
    let overdue = now.saturating_sub(own.looked_at.load(Relaxed)) >= LOOK_AT_LEAST;
    if timer < 0 || overdue || own.state.compare_exchange(ASLEEP, WATCHING, SeqCst, SeqCst).is_err() {
        wake_if_asleep();
        return false;
    }
    SCHED.platform.coarse_clock.store(now, Relaxed);
    m.lone.set(Some((now, batch as u32)));
    let next_overdue = next_timer.saturating_add(TIMER_OVERDUE).saturating_sub(now);
    timerfd::set(timer, WATCH.min(next_overdue).max(1));
    if own.state.load(SeqCst) != WATCHING {
        own.end_sleep(); // Y2
    }
    true
}

/// Called by an M that is about to poll, and has given up its P: undoes [`wake_later`]. Returns how many
/// goroutines it ran, and since when.
#[inline]
pub(crate) fn need_not_wake(m: &'static M) -> Option<(u64, u32)> {
    let lone = m.lone.take();
    if lone.is_some() {
        let own = &SCHED.platform.sysmon;
        timerfd::set(own.timer.load(Relaxed), AFTERWARDS);
        if own.state.compare_exchange(WATCHING, ASLEEP, SeqCst, SeqCst).is_err() {
            own.end_sleep(); // Y2
        }
    }
    lone
}

/// For reports: sysmon sleeps, because every P is idle.
pub(crate) fn is_asleep() -> bool {
    // Acquire: a thread that sees it set sees that the runtime has started.
    SCHED.platform.sysmon.state.load(Acquire) == ASLEEP
}
