//! What other threads tell sysmon (`monitor/sysmon/`).

use std::sync::atomic::Ordering;

use crate::sched::machine::SCHED;
use crate::sys::clock::nanotime;

/// A P is no longer idle: there is something to watch.
#[inline]
pub(crate) fn wake_if_asleep() {
    if SCHED.platform.sysmon.asleep.load(Ordering::SeqCst) {
        // Nobody kept the coarse clock while all was idle.
        SCHED.platform.coarse_clock.store(nanotime(), Ordering::Relaxed);
        SCHED.platform.sysmon.wake.set();
    }
}

/// A goroutine has to wait because all Ps are busy: perhaps one of them is blocked. Cuts a long pause short.
#[inline]
pub(crate) fn look_soon() {
    // SeqCst: after the put, which is too.
    if SCHED.platform.sysmon.in_long_pause.load(Ordering::SeqCst) {
        cut_pause_short();
    }
}

#[cold]
fn cut_pause_short() {
    if SCHED.platform.sysmon.in_long_pause.swap(false, Ordering::Relaxed) {
        SCHED.platform.sysmon.wake.set();
    }
}

/// For reports: every P is idle and there is nothing to watch.
pub(crate) fn is_asleep() -> bool {
    SCHED.platform.sysmon.asleep.load(Ordering::Relaxed)
}
