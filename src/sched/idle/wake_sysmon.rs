//! How other threads wake sysmon (`monitor/sysmon/`).

use std::sync::atomic::Ordering;

use crate::sched::machine::SCHED;
use crate::sys::clock::nanotime;

/// Called when a P is no longer idle: sysmon has something to watch again.
#[inline]
pub(crate) fn wake_if_asleep() {
    if SCHED.platform.sysmon.asleep.load(Ordering::SeqCst) {
        // No thread has updated the coarse clock while all Ps were idle.
        SCHED.platform.coarse_clock.store(nanotime(), Ordering::Relaxed);
        SCHED.platform.sysmon.wake.set();
    }
}

/// Called when a goroutine has to wait because all Ps are busy. One of them may be blocked, so this cuts a
/// long pause of sysmon short.
#[inline]
pub(crate) fn look_soon() {
    // SeqCst, so that this load comes after the put, which is SeqCst too.
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

/// For reports: sysmon sleeps, because every P is idle.
pub(crate) fn is_asleep() -> bool {
    // Acquire: a thread that sees it set sees that the runtime has started.
    SCHED.platform.sysmon.asleep.load(Ordering::Acquire)
}
