//! GOMAXPROCS for one test.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Watchdog;

/// Sets GOMAXPROCS for one test, and watches that the test ends. Other tests of the process that use this
/// guard wait for their turn. The drop restores the former value.
pub(crate) struct Procs {
    before: usize,
    _watchdog: Watchdog,
    _one_at_a_time: MutexGuard<'static, ()>,
}

impl Procs {
    pub(crate) fn set(n: usize) -> Procs {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let watchdog = Watchdog::start();
        Procs { before: gort::runtime::set_max_procs(n), _watchdog: watchdog, _one_at_a_time: guard }
    }
}

impl Drop for Procs {
    fn drop(&mut self) {
        gort::runtime::set_max_procs(self.before);
    }
}
