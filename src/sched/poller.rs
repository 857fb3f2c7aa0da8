//! The one M that waits for time and I/O when its P has nothing to do. It holds no P while it waits.
//!
//! `UNTIL` is the time the waiting M will wake up at by itself: 0 when nobody waits. Who starts an earlier timer
//! interrupts it. The poller publishes `UNTIL` first and looks at all timers after; who starts a timer publishes
//! the timer first and looks at `UNTIL` after: so one of them sees the other (all four SeqCst).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::glist::GList;
use super::global::{self, SPINNING};
use super::m::M;
use super::wake;
use crate::netpoll;
use crate::sys::clock::nanotime;
use crate::timer::{self, NEVER};

static BUSY: AtomicBool = AtomicBool::new(false);
static UNTIL: AtomicU64 = AtomicU64::new(0);

/// A timer was started that fires at `when`.
#[inline]
pub(crate) fn new_deadline(when: u64) {
    let until = UNTIL.load(Ordering::SeqCst);
    if until != 0 && when < until {
        netpoll::interrupt();
    }
}

/// Whether an M waits for the timers. SeqCst: see `new_deadline`.
pub(crate) fn is_waiting() -> bool {
    UNTIL.load(Ordering::SeqCst) != 0
}

/// For an M without a P: waits for the next timer or for I/O, unless another M does so already. May come back with
/// a P.
pub(crate) fn wait(m: &'static M) {
    if timer::earliest() == NEVER && !netpoll::has_waiters() {
        return;
    }
    // Acquire and Release: one poller after the other.
    if BUSY.swap(true, Ordering::Acquire) {
        // Its deadline may be later than a timer that was moved or that its P left behind.
        new_deadline(timer::earliest());
        return;
    }
    UNTIL.store(NEVER, Ordering::SeqCst);
    let until = timer::earliest();
    UNTIL.store(until, Ordering::SeqCst);
    let ready = GList::new();
    let now = nanotime();
    if until > now {
        netpoll::wait((until != NEVER).then(|| until - now), &ready);
    }
    UNTIL.store(0, Ordering::SeqCst);
    BUSY.store(false, Ordering::Release);
    take_p_for(m, &ready);
}

/// Gives the M a P, if one is idle, and the goroutines to it; else to the global queue.
fn take_p_for(m: &'static M, ready: &GList) {
    let mut state = global::lock();
    let Some(p) = state.take_idle_p() else {
        state.push_list(ready);
        return;
    };
    drop(state);
    m.set_p(Some(p));
    m.spinning.set(true);
    SPINNING.fetch_add(1, Ordering::SeqCst);
    wake::make_all_runnable_on(p, ready);
}
