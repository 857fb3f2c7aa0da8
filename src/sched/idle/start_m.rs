//! Asking the starter for a new M (`monitor/starter.rs`), and waking the housekeeper.

use std::sync::atomic::Ordering;

use crate::sched::machine::SCHED;

/// Asks for a new M. The caller's token passes to it.
pub(crate) fn start_spinning_m() {
    SCHED.platform.starter.start_spinning_m.store(true, Ordering::Release);
    SCHED.platform.starter.wake.set();
}

/// Asks for an M that waits until it is needed: a goroutine can be stopped by signal only if another M is
/// there for its P.
pub(crate) fn start_spare_m() {
    keep_spare_ms(1);
}

/// Asks for Ms that wait until they are needed, so that `count` Ms are idle.
pub(crate) fn keep_spare_ms(count: u32) {
    SCHED.platform.starter.spare_ms_wanted.fetch_max(count, Ordering::Release);
    SCHED.platform.starter.wake.set();
}

/// Wakes the housekeeper. May be called in a signal handler.
pub(crate) fn wake_housekeeper() {
    SCHED.platform.housekeeper.wake.set();
}
